"""Learning curves: losses and validation by epoch, one figure a run."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from crossbias.report.runs import Epoch
from crossbias.report.svg import FAINT, SERIES, inline, page_style, short

_DASHES = ("-", "--", "-.", ":")
_MARKERS = ("o", "D", "s", "^")


def learning_curves(name: str, log: Sequence[Epoch], number: int) -> Markup:
    """The losses above, the validation scores below; stages follow one another.

    Args:
        name: The run's name, for the description.
        log: The run's epochs.
        number: The figure's number among the curves of the page.
    """
    starts = [x for x, epoch in enumerate(log) if x == 0 or log[x - 1].stage != epoch.stage]
    with page_style(f"curves {number}"):
        figure = Figure(figsize=(4.4, 3.7), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        _lines(above, [epoch.losses for epoch in log], starts, "loss")
        _lines(below, [epoch.validation for epoch in log], starts, "validation")
        if len(starts) > 1:
            for start, end in pairwise([*starts, len(log)]):
                _mark_stage(above, below, start, end, log[start].stage)
        below.set_xlabel("epoch")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        return inline(figure, f"{name}: losses and validation scores over {len(log)} epochs")


def _lines(
    axes: Axes, values: Sequence[Mapping[str, float | None]], starts: Sequence[int], label: str
) -> None:
    """One line for each name; color, dashes and marker all tell them apart."""
    axes.set_ylabel(label)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.tick_params(length=0)
    names = list(dict.fromkeys(name for row in values for name in row))
    handles = []
    styles = zip(names, cycle(SERIES), cycle(_DASHES), cycle(_MARKERS), strict=False)
    for name, color, dashes, marker in styles:
        xs, ys = _points([row.get(name) for row in values], starts)
        (line,) = axes.plot(xs, ys, color=color, linestyle=dashes, marker=marker, markersize=3.5)
        line.set_markevery(max(1, len(xs) // 12))
        handles.append(line)
    if handles:
        corner: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
        axes.legend(handles, [short(name, 16) for name in names], ncols=3, fontsize=8, **corner)
    else:
        axes.text(0.5, 0.5, f"no {label}", transform=axes.transAxes, ha="center", va="center")
        axes.set_yticks([])


def _points(
    values: Sequence[float | None], starts: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Epochs that have a value, and the values; a stage's line does not run on into the next."""
    xs: list[float] = []
    ys: list[float] = []
    for epoch, value in enumerate(values):
        if epoch in starts and epoch > 0:
            xs, ys = [*xs, epoch + 0.5], [*ys, math.nan]
        if isinstance(value, (int, float)) and math.isfinite(value):
            xs, ys = [*xs, epoch + 1], [*ys, value]
    return xs, ys


def _mark_stage(above: Axes, below: Axes, start: int, end: int, stage: str) -> None:
    for axes in (above, below) if start else ():
        axes.axvline(start + 0.5, color=FAINT, linewidth=1)
    place = above.get_xaxis_transform()  # epochs across, fractions of the axes upward
    above.text(end + 0.4, 0.97, short(stage), transform=place, ha="right", va="top", fontsize=8)
