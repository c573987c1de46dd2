"""A comparison as text: CSV for programs, Markdown and LaTeX for papers, HTML for notebooks."""

import csv
import html
import io
import math
from collections.abc import Callable
from typing import Final

from crossbias.formatting import csv_cell, markdown
from crossbias.runs.compare import Comparison
from crossbias.runs.grids import Grid, grids_of, legend
from crossbias.runs.rows import Number, Row
from crossbias.verify import NO_SAMPLES

CSV_HEADER: Final = (
    *("row", "method", "supervision", "selection", "seeds", "data", "split", "attribute"),
    *("metric", "value", "deviation", "low", "high", "interval_over", "n"),
    *("baseline", "gain", "gain_low", "gain_high", "p"),
)

_LATEX: Final = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "#$%&_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"±": r"$\pm$", "<": r"$<$", ">": r"$>$", "[": "{[}", "]": "{]}"},
    }
)


def to_csv(comparison: Comparison) -> str:
    """One line for each row and number, as fractions of 1 and in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for row in comparison.rows:
        for name in comparison.metrics:
            writer.writerow(_csv_line(comparison, row, name))
    return text.getvalue()


def _csv_line(comparison: Comparison, row: Row, name: str) -> list[object]:
    number = row.numbers[name] or Number(math.nan, math.nan, math.nan, math.nan, 0)
    gain = comparison.gains.get(row.label, {}).get(name, NO_SAMPLES)
    test = comparison.tests.get(row.label, {}).get(name)
    line: list[object] = [
        *(row.label, row.runs[0].method, row.supervision, row.selection, len(row.runs)),
        *(comparison.data, comparison.split, comparison.attribute or "", name),
        *(number.value, number.deviation, number.low, number.high),
        *("seeds" if row.runs[1:] else "test samples", number.n),
        *(comparison.baseline.label, gain.value, gain.low, gain.high),
        test.p if test else math.nan,
    ]
    return [csv_cell(value) for value in line]


def to_markdown(comparison: Comparison) -> str:
    """The grids as Markdown tables, and the legend as a list."""
    parts = []
    for grid in grids_of(comparison):
        rule = ("---",) * len(grid.header)
        table = (grid.header, rule, *grid.rows)
        lines = ["| " + " | ".join(map(markdown, line)) + " |" for line in table]
        parts.append("\n".join([f"**{markdown(grid.title)}**", "", *lines]))
    parts.append("\n".join(f"- {markdown(line)}" for line in legend(comparison)))
    return "\n\n".join(parts) + "\n"


def to_latex(comparison: Comparison) -> str:
    """The grids as ``tabular`` with the rules of booktabs, the legend as comments."""
    parts = [r"% needs \usepackage{booktabs}"]
    parts += [_latex_table(grid) for grid in grids_of(comparison)]
    parts += [f"% {' '.join(line.split())}" for line in legend(comparison)]
    return "\n".join(parts) + "\n"


def _latex_table(grid: Grid) -> str:
    cells = [[" ".join(text.split()) for text in line] for line in (grid.header, *grid.rows)]
    header, *rows = (" & ".join(text.translate(_LATEX) for text in line) + r" \\" for line in cells)
    body = [r"\toprule", header, r"\midrule", *rows, r"\bottomrule"]
    begin = rf"\begin{{tabular}}{{l{'c' * (len(grid.header) - 1)}}}"
    return "\n".join([f"% {' '.join(grid.title.split())}", begin, *body, r"\end{tabular}"])


def to_html(comparison: Comparison) -> str:
    """The grids as HTML tables, and the legend as a list; every name is escaped."""
    parts = [_html_table(grid) for grid in grids_of(comparison)]
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in legend(comparison))
    return "\n".join([*parts, f"<ul>{lines}</ul>"])


def _html_table(grid: Grid) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in grid.header)
    rows = [
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in line) + "</tr>"
        for line in grid.rows
    ]
    caption = f"<caption>{html.escape(grid.title)}</caption>"
    body = "\n".join(rows)
    return f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


FORMATS: Final[dict[str, Callable[[Comparison], str]]] = {
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
}
