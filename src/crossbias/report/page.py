"""The page: everything a report shows, put into one self-contained HTML file."""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.colors import to_hex

from crossbias.formatting import count, duration, percent, percent_range
from crossbias.report import tables
from crossbias.report.audit_section import AuditFindings
from crossbias.report.curves import learning_curves
from crossbias.report.galleries import galleries
from crossbias.report.gap_chart import gap_chart
from crossbias.report.guidance_pictures import guidance_rows
from crossbias.report.heatmap import COLORS, accuracy_matrix
from crossbias.report.phrases import selection, settings, supervision
from crossbias.report.sample_pictures import sample_pictures, without_maps
from crossbias.report.summary import summary
from crossbias.runs.comparability import commands, differences, labels
from crossbias.runs.read import FinishedRun
from crossbias.verify import MIN_SAMPLES, Estimate

HERE = Path(__file__).parent


def render(runs: Sequence[FinishedRun], audit: AuditFindings | None = None) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (count, duration, percent, selection, settings, supervision, _interval, _pretty)
    environment.filters |= {each.__name__.strip("_"): each for each in filters}
    content = _frame() | _facts(runs) | _tables(runs) | _figures(runs) | {"audit": audit}
    return environment.get_template("page.html").render(content)


def _frame() -> dict[str, Any]:
    """Style and script, and the script's hash, by which the page's policy allows it."""
    script = (HERE / "page.js").read_text(encoding="utf-8")
    return {
        "gradient": _gradient(),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": Markup((HERE / "page.css").read_text(encoding="utf-8")),
    }


def _facts(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    return {
        "bias": runs[0].bias or "bias",
        "commands": commands(runs),
        "data": runs[0].config["data"],
        "differences": differences(runs),
        "labeled": _labeled(runs),
        "names": labels(runs),
        "runs": runs,
        "split": runs[0].split,
        "summary": summary(runs),
        "test": runs[0].test,
    }


def _tables(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    tests = [run.test for run in runs]
    sizes = [group.accuracy.n for group in tests[0].groups if group.accuracy.n]
    return {
        "attributes": tables.attribute_tables(runs),
        "groups": tables.group_rows(tests),
        "measures": tables.measure_table(runs),
        "others": tables.other_tables(runs),
        "sizes": sizes,
        "small": sum(size < MIN_SAMPLES for size in sizes),
        "few": MIN_SAMPLES,
        "table": tables.comparison_table(tests),
    }


def _figures(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    names, bias = labels(runs), runs[0].bias or "bias"
    numbered = list(enumerate(zip(names, runs, strict=True)))
    drawn = numbered if _labeled(runs) else []
    guided = [(name, guidance_rows(run)) for name, run in zip(names, runs, strict=True)]
    return {
        "curves": [learning_curves(name, run.log, i) for i, (name, run) in numbered],
        "galleries": galleries(names, runs),
        "gap": gap_chart(names, [run.test for run in runs]),
        "guidance": [(name, rows) for name, rows in guided if rows],
        "matrices": [accuracy_matrix(name, run.test, bias, i) for i, (name, run) in drawn],
        "pictures": sample_pictures(runs),
        "without_maps": without_maps(names, runs),
    }


def _labeled(runs: Sequence[FinishedRun]) -> bool:
    """Whether the bias of at least one judged sample is known."""
    return runs[0].test.worst_group is not None


def _interval(estimate: Estimate) -> str:
    return percent_range(estimate.low, estimate.high) if estimate.n else ""


def _pretty(config: Any) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False)


def _gradient() -> str:
    """The heat maps' colors as a CSS gradient, for their key."""
    colors = (to_hex(matplotlib.colormaps[COLORS](step / 8)) for step in range(9))
    return f"linear-gradient(to right, {', '.join(colors)})"
