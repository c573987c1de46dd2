"""The figures of a report: the gap between aligned and conflicting, and accuracy by group."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from crossbias.report.svg import ALIGNED, CONFLICTING, FAINT, INK, inline, page_style, short
from crossbias.report.words import percent
from crossbias.verify import Estimate, Metrics

NUMBERS_UP_TO = 12
"""Cells carry their accuracy in matrices up to this many rows and columns."""

SIZES_UP_TO = 5
"""Cells also carry their number of samples up to this many rows and columns."""

COLORS = "cividis"
"""Ordered in lightness, so that it reads the same in gray and with any color vision."""


def gap_chart(names: Sequence[str], tests: Sequence[Metrics]) -> Markup:
    """For each run, its accuracy on aligned and on conflicting samples, with intervals.

    Runs whose bias is not known show one mark, the accuracy over all samples.
    """
    with page_style("gap"):
        shown = [short(name, 32) for name in names]
        size = (2.9 + 0.065 * max(map(len, shown)), 0.7 + 0.32 * len(names))
        figure = Figure(figsize=size, layout="constrained")
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


def accuracy_matrix(name: str, test: Metrics, bias: str, number: int) -> Markup:
    """Accuracy of every (target, bias) group as a heat map; aligned groups are framed.

    Args:
        name: The run's name, for the description.
        test: The metrics to show.
        bias: The name of the bias attribute.
        number: The figure's number among the matrices of the page.
    """
    rows, columns = len(test.classes), len(test.biases)
    cells = np.array([[cell.value for cell in row] for row in test.by_group])
    with page_style(f"matrix {number}"):
        margin = 0.4 + 0.065 * max(len(short(name, 12)) for name in test.classes)
        height = 0.42 if max(rows, columns) <= SIZES_UP_TO else 0.3
        size = (margin + _within(0.36 * columns, 3.4, 4.6), 0.9 + _within(height * rows, 1.4, 4.6))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        axes.imshow(cells, cmap=COLORS, vmin=0, vmax=1, aspect="auto")
        if max(rows, columns) <= NUMBERS_UP_TO:
            _write_numbers(axes, test)
        _frame(axes, test)
        _name_axis(axes, "x", test.biases, bias)
        _name_axis(axes, "y", test.classes, "class")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        known = [group.accuracy for group in test.groups if group.accuracy.n]
        low, high = min(cell.value for cell in known), max(cell.value for cell in known)
        return inline(
            figure,
            f"{name}: accuracy of {len(known)} groups of class and {bias}, "
            f"from {percent(low)} to {percent(high)}",
        )


def _within(inches: float, low: float, high: float) -> float:
    return min(max(inches, low), high)


def _write_numbers(axes: Axes, test: Metrics) -> None:
    """Percent in each cell, in whichever of black and white stands out; n where there is room."""
    colors = matplotlib.colormaps[COLORS]
    roomy = max(len(test.classes), len(test.biases)) <= SIZES_UP_TO
    for row, line in enumerate(test.by_group):
        for column, cell in enumerate(line):
            text = f"{100 * cell.value:.0f}" if cell.n else "none"
            if cell.n and roomy:
                text += f"\nn = {cell.n}"
            light = cell.n and np.dot(colors(cell.value)[:3], (0.299, 0.587, 0.114)) > 0.5
            color = INK if not cell.n else "black" if light else "white"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize=8)


def _frame(axes: Axes, test: Metrics) -> None:
    for row, line in enumerate(test.aligned_groups):
        for column, aligned in enumerate(line):
            if aligned:
                corner = (column - 0.5, row - 0.5)
                axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=INK, linewidth=1.6))


def _name_axis(axes: Axes, axis: str, names: Sequence[str], label: str) -> None:
    """Names along an axis; every second, third, ... where there are too many to read."""
    every = math.ceil(len(names) / 20)
    shown = [short(name, 12) for name in names[::every]]
    slanted = axis == "x" and max(map(len, shown)) > 3
    turn: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    )
    axes.set(**{f"{axis}label": short(label, 30)})
    ticks = range(0, len(names), every)
    (axes.set_xticks if axis == "x" else axes.set_yticks)(ticks, shown, **turn)
