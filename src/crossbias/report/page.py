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

from crossbias.report import words
from crossbias.report.comparison import differences, labels, read_runs
from crossbias.report.curves import learning_curves
from crossbias.report.gap import gap_chart
from crossbias.report.heatmap import COLORS
from crossbias.report.matrix import accuracy_matrix
from crossbias.report.pictures import sample_pictures
from crossbias.report.runs import RunFolder
from crossbias.report.summary import summary
from crossbias.report.tables import comparison_table, group_rows, other_tables
from crossbias.storage import write_atomically

HERE = Path(__file__).parent


def write_report(folders: Sequence[Path], output: Path) -> None:
    """Write one HTML page that compares finished runs; it needs no network and no other file.

    Args:
        folders: Run folders, in the order they are listed.
        output: The file to write; an earlier one is replaced once the new one is whole.

    Raises:
        CrossbiasError: A folder is not a finished run, a file is damaged, the runs cannot be
            compared, or the page cannot be written.
    """
    page = render(read_runs(folders))
    # A name may hold half a character, of a file name that is not UTF-8; it is shown as "?".
    write_atomically(output, lambda file: file.write(page.encode(errors="replace")))


def render(runs: Sequence[RunFolder]) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = (words.count, words.duration, words.interval, words.percent)
    phrases = (words.selection, words.settings, words.supervision, _pretty)
    environment.filters |= {each.__name__.strip("_"): each for each in (*numbers, *phrases)}
    return environment.get_template("page.html").render(_content(runs))


def _content(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """What the template shows, by name."""
    names, tests = labels(runs), [run.test for run in runs]
    script = (HERE / "page.js").read_text(encoding="utf-8")
    numbered = list(enumerate(zip(names, runs, strict=True)))
    bias, labeled = runs[0].bias or "bias", tests[0].worst_group is not None
    matrices = [accuracy_matrix(name, run.test, bias, i) for i, (name, run) in numbered if labeled]
    return {
        "bias": bias,
        "curves": [learning_curves(name, run.log, i) for i, (name, run) in numbered],
        "data": runs[0].config["data"],
        "differences": differences(runs),
        "gap": gap_chart(names, tests),
        "gradient": _gradient(),
        "groups": group_rows(tests),
        "labeled": labeled,
        "matrices": matrices,
        "names": names,
        "others": other_tables(runs),
        "pictures": sample_pictures(runs),
        "runs": runs,
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "sizes": [group.accuracy.n for group in tests[0].groups if group.accuracy.n],
        "split": runs[0].split,
        "style": Markup((HERE / "page.css").read_text(encoding="utf-8")),
        "summary": summary(runs),
        "table": comparison_table(tests),
        "test": tests[0],
    }


def _pretty(config: Any) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False)


def _gradient() -> str:
    """The heat maps' colors as a CSS gradient, for their key."""
    colors = (to_hex(matplotlib.colormaps[COLORS](step / 8)) for step in range(9))
    return f"linear-gradient(to right, {', '.join(colors)})"
