"""Heat maps of named rows and columns, readable in gray, with numbers where there is room."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from crossbias.formatting import percent, short
from crossbias.report.svg import INK, inline, page_style
from crossbias.verify import Metrics

NUMBERS_UP_TO: Final = 12  # cells carry their number in maps up to this many rows and columns

SIZES_UP_TO: Final = 5  # cells also carry their number of samples up to this many rows and columns

MOST_CELLS: Final = 40_000  # a map of more is not drawn: a cell would be smaller than a dot

COLORS: Final = "cividis"
"""Ordered in lightness, so that it reads the same in gray and with any color vision."""


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """Numbers in [0, 1] by row and column; NaN where there is no sample."""

    values: Sequence[Sequence[float]]  # row by row
    sizes: Sequence[Sequence[int]]  # samples behind each value
    rows: Sequence[str]  # their names
    columns: Sequence[str]
    row_label: str  # what the rows are
    column_label: str
    framed: Sequence[Sequence[bool]]  # which cells have a frame
    highest: float = 1.0  # the value of the lightest color

    @property
    def side(self) -> int:
        """The larger of the two numbers of names."""
        return max(len(self.rows), len(self.columns))

    def figure(self, salt: str, description: str) -> Markup:
        """The heat map as an inline figure; the description is for those who do not see it."""
        with page_style(salt):
            figure = Figure(figsize=self._inches())
            axes = figure.subplots()
            axes.imshow(
                np.array(self.values), cmap=COLORS, vmin=0, vmax=self.highest, aspect="auto"
            )
            if self.side <= NUMBERS_UP_TO:
                self._write_numbers(axes)
            self._draw_frames(axes)
            name_axis(axes, "x", self.columns, self.column_label)
            name_axis(axes, "y", self.rows, self.row_label)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
            if self.highest < 1:
                axes.set_title(f"dark 0%, light {percent(self.highest)}", size=8, loc="left")
            return inline(figure, description)

    def _inches(self) -> tuple[float, float]:
        """Width and height: as much as the cells need, within what a column of the page holds."""
        names = 0.4 + 0.065 * max(len(short(name, 12)) for name in self.rows)
        width = min(max(0.36 * len(self.columns), 3.4), 4.6)
        row = 0.42 if self.side <= SIZES_UP_TO else 0.3
        return names + width, 0.9 + min(max(row * len(self.rows), 1.4), 4.6)

    def _write_numbers(self, axes: Axes) -> None:
        """Percent in each cell, black or white, whichever stands out; n where there is room."""
        colors = matplotlib.colormaps[COLORS]
        decimals = 0 if self.highest > 0.2 else 1
        for row, (values, sizes) in enumerate(zip(self.values, self.sizes, strict=True)):
            for column, (value, n) in enumerate(zip(values, sizes, strict=True)):
                text = f"{100 * value:.{decimals}f}" if n else "none"
                if n and self.side <= SIZES_UP_TO:
                    text += f"\nn = {n}"
                light = n and np.dot(colors(value / self.highest)[:3], (0.299, 0.587, 0.114)) > 0.5
                color = INK if not n else "black" if light else "white"
                written = axes.text(
                    column, row, text, ha="center", va="center", color=color, fontsize=8
                )
                written.set_in_layout(False)  # inside the axes anyway; measuring each takes long

    def _draw_frames(self, axes: Axes) -> None:
        for row, column in np.argwhere(self.framed):
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=INK, linewidth=1.6))


def name_axis(axes: Axes, axis: str, names: Sequence[str], label: str) -> None:
    """Names along an axis; every second, third, ... where there are too many to read."""
    every = math.ceil(len(names) / 20)
    shown = [short(name, 12) for name in names[::every]]
    slanted = axis == "x" and max(map(len, shown)) > 3
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set(**{f"{axis}label": short(label, 30)})
    ticks = range(0, len(names), every)
    (axes.set_xticks if axis == "x" else axes.set_yticks)(ticks, shown, **turn if slanted else {})


def accuracy_matrix(name: str, tests: Sequence[Metrics], bias: str, number: int) -> Markup:
    """Accuracy of every (target, bias) group, of which at least one has samples, as a heat map.

    With the metrics of several runs, it is the mean over the runs.
    """
    first = tests[0]
    tables = [test.by_group for test in tests]
    values = np.mean([[[cell.value for cell in row] for row in table] for table in tables], axis=0)
    heat = HeatMap(
        values=values.tolist(),
        sizes=[[cell.n for cell in row] for row in tables[0]],
        rows=first.classes,
        columns=first.biases,
        row_label="class",
        column_label=bias,
        framed=aligned_table(first),
    )
    return heat.figure(f"matrix {number}", f"{name}: {_description(values, bias)}")


def fits_a_map(metrics: Metrics) -> bool:
    """Whether there are few enough classes and bias values to be seen on a map."""
    return len(metrics.classes) * len(metrics.biases) <= MOST_CELLS


def aligned_table(metrics: Metrics) -> list[list[bool]]:
    """Whether each bias value (column) is aligned with each class (row); empty if not known."""
    return [[name in names for name in metrics.biases] for names in metrics.aligned_groups]


def _description(values: np.ndarray[Any, Any], bias: str) -> str:
    limits = f"from {percent(np.nanmin(values))} to {percent(np.nanmax(values))}"
    return f"accuracy of {np.isfinite(values).sum()} groups of class and {bias}, {limits}"
