"""The page: everything a report shows, put into one self-contained HTML file."""

import base64
import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.colors import to_hex

from crossbias.formatting import count, duration, percent, percent_range, plus_minus, settings
from crossbias.report import tables
from crossbias.report.audit_section import AuditFindings
from crossbias.report.curves import learning_curves
from crossbias.report.galleries import galleries
from crossbias.report.gap_chart import gap_chart
from crossbias.report.heatmap import COLORS, accuracy_matrix
from crossbias.report.sample_pictures import guidance_rows, sample_pictures, without_maps
from crossbias.report.summary import selection, summary, supervision
from crossbias.runs.compare import Comparison
from crossbias.runs.grids import about_gains, about_rows, grids_of

HERE = Path(__file__).parent


def render(comparison: Comparison, audit: AuditFindings | None = None) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (count, duration, percent, plus_minus, selection, settings, supervision)
    environment.filters |= {each.__name__: each for each in filters} | {
        "interval": lambda number: percent_range(number.low, number.high),
        "pretty": partial(json.dumps, indent=2, ensure_ascii=False),
    }
    content = _frame() | _facts(comparison) | _tables(comparison) | _figures(comparison)
    return environment.get_template("page.html").render(content, compared=comparison, audit=audit)


def _frame() -> dict[str, Any]:
    """Style and script, and the script's hash, by which the page's policy allows it."""
    script = (HERE / "page.js").read_text(encoding="utf-8")
    # The heat maps' colors as a CSS gradient, for their key.
    colors = (to_hex(matplotlib.colormaps[COLORS](step / 8)) for step in range(9))
    return {
        "gradient": f"linear-gradient(to right, {', '.join(colors)})",
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": Markup((HERE / "page.css").read_text(encoding="utf-8")),
    }


def _facts(comparison: Comparison) -> dict[str, Any]:
    first = comparison.runs[0]
    return {
        "about_gains": about_gains(comparison),
        "about_rows": about_rows(comparison),
        "bias": first.bias or "bias",
        "data": first.config["data"],
        "labeled": _labeled(comparison),
        "names": comparison.run_labels,
        "split": comparison.split,
        "summary": summary(comparison),
        "test": first.test,
    }


def _tables(comparison: Comparison) -> dict[str, Any]:
    groups = comparison.runs[0].test.groups
    return {
        "attributes": tables.attribute_tables(comparison),
        "gains": grids_of(comparison)[1:],
        "groups": tables.group_rows(comparison.rows),
        "measures": tables.measure_table(comparison),
        "others": tables.split_tables(comparison),
        "sizes": [group.accuracy.n for group in groups if group.accuracy.n],
        "table": tables.accuracy_table(comparison.rows),
    }


def _figures(comparison: Comparison) -> dict[str, Any]:
    names, runs = comparison.run_labels, comparison.runs
    numbered = list(enumerate(zip(names, runs, strict=True)))
    drawn = numbered if _labeled(comparison) else []
    bias = runs[0].bias or "bias"
    guided = [(name, guidance_rows(run)) for name, run in zip(names, runs, strict=True)]
    return {
        "curves": [learning_curves(name, run.log, run.curves, i) for i, (name, run) in numbered],
        "galleries": galleries(names, runs),
        "gap": gap_chart(comparison.rows, comparison.split),
        "guidance": [(name, rows) for name, rows in guided if rows],
        "matrices": [accuracy_matrix(name, run.test, bias, i) for i, (name, run) in drawn],
        "pictures": sample_pictures(runs),
        "without_maps": without_maps(names, runs),
    }


def _labeled(comparison: Comparison) -> bool:
    """Whether the bias of at least one judged sample is known."""
    return comparison.runs[0].test.worst_group is not None
