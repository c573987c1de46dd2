"""The accuracy matrix: a heat map of every (target, bias) group."""

import math
from collections.abc import Sequence
from typing import Any, Final

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from crossbias.report.svg import INK, inline, page_style, short
from crossbias.report.words import percent
from crossbias.verify import Metrics

NUMBERS_UP_TO: Final = 12
"""Cells carry their accuracy in matrices up to this many rows and columns."""

SIZES_UP_TO: Final = 5
"""Cells also carry their number of samples up to this many rows and columns."""

COLORS: Final = "cividis"
"""Ordered in lightness, so that it reads the same in gray and with any color vision."""


def accuracy_matrix(name: str, test: Metrics, bias: str, number: int) -> Markup:
    """Accuracy of every (target, bias) group as a heat map; aligned groups are framed.

    Args:
        name: The run's name, for the description.
        test: The metrics to show; at least one group has samples.
        bias: The name of the bias attribute.
        number: The figure's number among the matrices of the page.
    """
    cells = [[cell.value for cell in row] for row in test.by_group]
    with page_style(f"matrix {number}"):
        figure = Figure(figsize=_inches(test), layout="constrained")
        axes = figure.subplots()
        axes.imshow(np.array(cells), cmap=COLORS, vmin=0, vmax=1, aspect="auto")
        if _side(test) <= NUMBERS_UP_TO:
            _write_numbers(axes, test)
        _frame_aligned(axes, test)
        _name_axis(axes, "x", test.biases, bias)
        _name_axis(axes, "y", test.classes, "class")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        return inline(figure, f"{name}: {_description(test, bias)}")


def _side(test: Metrics) -> int:
    return max(len(test.classes), len(test.biases))


def _inches(test: Metrics) -> tuple[float, float]:
    """Width and height: as much as the cells need, within what a column of the page holds."""
    names = 0.4 + 0.065 * max(len(short(name, 12)) for name in test.classes)
    width = min(max(0.36 * len(test.biases), 3.4), 4.6)
    row = 0.42 if _side(test) <= SIZES_UP_TO else 0.3
    return names + width, 0.9 + min(max(row * len(test.classes), 1.4), 4.6)


def _description(test: Metrics, bias: str) -> str:
    values = [group.accuracy.value for group in test.groups if group.accuracy.n]
    limits = f"from {percent(min(values))} to {percent(max(values))}"
    return f"accuracy of {len(values)} groups of class and {bias}, {limits}"


def _write_numbers(axes: Axes, test: Metrics) -> None:
    """Percent in each cell, in whichever of black and white stands out; n where there is room."""
    colors = matplotlib.colormaps[COLORS]
    roomy = _side(test) <= SIZES_UP_TO
    for row, line in enumerate(test.by_group):
        for column, cell in enumerate(line):
            text = f"{100 * cell.value:.0f}" if cell.n else "none"
            if cell.n and roomy:
                text += f"\nn = {cell.n}"
            light = cell.n and np.dot(colors(cell.value)[:3], (0.299, 0.587, 0.114)) > 0.5
            color = INK if not cell.n else "black" if light else "white"
            written = axes.text(
                column, row, text, ha="center", va="center", color=color, fontsize=8
            )
            written.set_in_layout(False)  # inside the axes anyway; measuring each takes long


def _frame_aligned(axes: Axes, test: Metrics) -> None:
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
