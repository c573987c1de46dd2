"""Learning curves: losses and validation scores by epoch, one figure for each run."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, groupby
from typing import Any, TypeGuard

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from crossbias.formatting import short
from crossbias.report.svg import FAINT, SERIES, inline, page_style
from crossbias.runs.read import Epoch

_DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "D", "s", "^", "v")
_LOSSES = ("loss", "task", "validation_loss")
_NOT_DRAWN = ("cross_entropy", "class_averaged")  # a loss, and hardly another than the accuracy
_TERMS = "terms"

Declared = Mapping[str, tuple[str, str]]
"""For logged losses with an axis of their own, its title and the curve's label."""

_LETTERS = 55  # this many letters fit across a figure


def learning_curves(name: str, log: Sequence[Epoch], declared: Declared, number: int) -> Markup:
    """The losses above, the validation scores below; stages follow one another.

    Other terms that a method logs, such as a regularizer, have an axis between the two. Terms of
    another size have an axis of their own, as the method declares.
    """
    starts = [x for x, epoch in enumerate(log) if x == 0 or log[x - 1].stage != epoch.stage]
    panels = _panels(log, declared)
    with page_style(f"curves {number}"):
        figure = Figure(figsize=(4.4, 0.3 + 1.7 * len(panels)))
        grid = figure.subplots(len(panels), sharex=True)
        for axes, (label, values) in zip(grid, panels.items(), strict=True):
            _lines(axes, values, starts, label, declared)
            for start in starts[1:]:
                axes.axvline(start + 0.5, color=FAINT, linewidth=1)
        if len(starts) > 1:
            _name_stages(grid[0], log)
        grid[-1].set_xlabel("epoch")
        grid[-1].set_xlim(0.5, max(len(log), 1) + 0.5)
        grid[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        return inline(figure, f"{name}: {_description(log)}")


def _panels(
    log: Sequence[Epoch], declared: Declared
) -> dict[str, list[Mapping[str, float | None]]]:
    """What each axis shows, epoch by epoch; an axis in the middle only if it has curves."""

    def axis(name: str) -> str:
        plain = "loss" if name in _LOSSES else _TERMS
        return declared.get(name, (plain, ""))[0]

    panels: dict[str, list[Mapping[str, float | None]]] = {
        title: [
            {name: value for name, value in _losses(epoch).items() if axis(name) == title}
            for epoch in log
        ]
        for title in ("loss", _TERMS, *(title for title, _ in declared.values()))
    }
    shown = {title: rows for title, rows in panels.items() if title == "loss" or any(rows)}
    scores: list[Mapping[str, float | None]] = [
        {name: value for name, value in epoch.validation.items() if name not in _NOT_DRAWN}
        for epoch in log
    ]
    return {**shown, "validation": scores}


def _losses(epoch: Epoch) -> Mapping[str, float | None]:
    """All losses of an epoch; that of the validation is a loss, not one of its scores."""
    if "cross_entropy" not in epoch.validation:
        return epoch.losses
    return {**epoch.losses, "validation_loss": epoch.validation["cross_entropy"]}


def _description(log: Sequence[Epoch]) -> str:
    """How long, and where every curve ends."""
    last = {**log[-1].losses, **log[-1].validation} if log else {}
    ends = [f"{short(name)} {value:.3g}" for name, value in last.items() if _is_number(value)]
    end = f"; at the end {', '.join(ends)}" if ends else ""
    parts = [f"{short(name)} {len(epochs)}" for name, epochs in _stages(log)]
    stages = f" ({', '.join(parts)})" if len(parts) > 1 else ""
    return f"losses and validation scores over {len(log)} epochs{stages}{end}"


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _lines(
    axes: Axes,
    values: Sequence[Mapping[str, float | None]],
    starts: Sequence[int],
    title: str,
    declared: Declared,
) -> None:
    """One line for each name; color, dashes and marker all tell them apart."""
    axes.set_ylabel(short(title))
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
        plain = {name: name.replace("_", " ") for name in names}
        shown = [short(declared.get(name, ("", plain[name]))[1], 16) for name in names]
        axes.legend(handles, shown, ncols=3, fontsize=8, **corner)
    else:
        axes.text(0.5, 0.5, f"no {title}", transform=axes.transAxes, ha="center", va="center")
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
        if _is_number(value):
            xs, ys = [*xs, epoch + 1], [*ys, value]
    return xs, ys


def _stages(log: Sequence[Epoch]) -> list[tuple[str, list[int]]]:
    """Each stage's name and places; stages that only have another number at the end are one."""
    named = [re.sub(r"-\d+$", "", epoch.stage) for epoch in log]
    return [(name, list(places)) for name, places in groupby(range(len(log)), named.__getitem__)]


def _name_stages(axes: Axes, log: Sequence[Epoch]) -> None:
    """Write each stage's name at its end, where it fits."""
    place = axes.get_xaxis_transform()  # epochs across, fractions of the axes upward
    for name, epochs in _stages(log):
        if len(short(name)) * len(log) <= _LETTERS * len(epochs):
            right: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 8, "transform": place}
            axes.text(epochs[-1] + 1.4, 0.97, short(name), **right)
