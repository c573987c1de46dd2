"""The gap chart: each run's accuracy where the bias helps, and where it misleads."""

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from crossbias.formatting import percent, short
from crossbias.report.svg import ALIGNED, CONFLICTING, FAINT, INK, inline, page_style
from crossbias.verify import Estimate, Metrics


def gap_chart(names: Sequence[str], tests: Sequence[Metrics]) -> Markup:
    """For each run, its accuracy on aligned and on conflicting samples, with intervals.

    Runs whose bias is not known show one mark, the accuracy over all samples.
    """
    with page_style("gap"):
        shown = [short(name, 32) for name in names]
        size = (2.9 + 0.065 * max(map(len, shown)), 0.7 + 0.32 * len(names))
        figure = Figure(figsize=size)
        axes = figure.subplots()
        for row, test in enumerate(tests):
            _gap(axes, row, test)
        axes.set_yticks(range(len(names)), shown)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("Accuracy on the test split")
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)
        return inline(figure, _gap_words(names, tests))


def _gap(axes: Axes, row: int, test: Metrics) -> None:
    if test.aligned is None or test.conflicting is None:
        _mark(axes, row, test.overall, INK, "s")
        return
    if test.aligned.n and test.conflicting.n:
        ends = [test.aligned.value, test.conflicting.value]
        axes.plot(ends, [row, row], color=FAINT, linewidth=3, solid_capstyle="round")
    _mark(axes, row, test.aligned, ALIGNED, "o")
    _mark(axes, row, test.conflicting, CONFLICTING, "D")


def _mark(axes: Axes, row: int, estimate: Estimate, color: str, marker: str) -> None:
    if estimate.n:
        axes.plot([estimate.low, estimate.high], [row, row], color=color, linewidth=1.4)
        axes.plot(estimate.value, row, color=color, marker=marker, markersize=6.5, linestyle="none")


def _gap_words(names: Sequence[str], tests: Sequence[Metrics]) -> str:
    parts = []
    for name, test in zip(names, tests, strict=True):
        if test.aligned is None or test.conflicting is None:
            parts.append(f"{name}: {percent(test.overall.value)} of all samples")
        else:
            values = (percent(test.aligned.value), percent(test.conflicting.value))
            parts.append(f"{name}: aligned {values[0]}, conflicting {values[1]}")
    return "Accuracy of each run. " + "; ".join(parts) + "."
