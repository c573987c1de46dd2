"""The gap chart: the accuracy of each row where the bias helps, and where it misleads."""

from collections.abc import Sequence
from textwrap import wrap

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from crossbias.formatting import percent, short
from crossbias.report.svg import ALIGNED, CONFLICTING, FAINT, INK, inline, page_style
from crossbias.runs.rows import Number, Row

_LETTERS = 32  # of a label in one line


def gap_chart(rows: Sequence[Row], split: str) -> Markup:
    """The accuracy of each row on aligned and on conflicting samples, with intervals.

    Rows whose bias is not known show one mark, the accuracy over all samples.
    """
    with page_style("gap"):
        names = [wrap(short(row.label, 3 * _LETTERS), _LETTERS) or [""] for row in rows]
        longest = max(len(line) for name in names for line in name)
        height = max(0.32, 0.18 * max(map(len, names)))
        figure = Figure(figsize=(2.9 + 0.065 * longest, 0.7 + height * len(rows)))
        axes = figure.subplots()
        for place, row in enumerate(rows):
            _gap(axes, place, row)
        axes.set_yticks(range(len(rows)), ["\n".join(name) for name in names])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel(f"Accuracy on the {short(split)} split")
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)
        return inline(figure, "Accuracy of each method. " + "; ".join(map(_words, rows)) + ".")


def _gap(axes: Axes, place: int, row: Row) -> None:
    aligned, conflicting = _kinds(row).values()
    if aligned and conflicting:
        ends = [aligned.value, conflicting.value]
        axes.plot(ends, [place, place], color=FAINT, linewidth=3, solid_capstyle="round")
    _mark(axes, place, aligned, ALIGNED, "o")
    _mark(axes, place, conflicting, CONFLICTING, "D")
    if not aligned and not conflicting:
        _mark(axes, place, row.numbers["overall"], INK, "s")


def _kinds(row: Row) -> dict[str, Number | None]:
    """The accuracies on aligned and conflicting samples; none where no group is aligned."""
    associated = row.metrics[0].associated
    return {name: row.numbers[name] if associated else None for name in ("aligned", "conflicting")}


def _mark(axes: Axes, place: int, number: Number | None, color: str, marker: str) -> None:
    if number:
        limits = [number.low, number.high]
        axes.plot(limits, [place, place], color=color, linewidth=1.4)
        axes.plot(number.value, place, color=color, marker=marker, markersize=6.5, linestyle="none")


def _words(row: Row) -> str:
    parts = [f"{name} {percent(number.value)}" for name, number in _kinds(row).items() if number]
    overall = row.numbers["overall"]
    if not parts and overall:
        parts = [f"{percent(overall.value)} of all samples"]
    return f"{row.label}: {', '.join(parts)}"
