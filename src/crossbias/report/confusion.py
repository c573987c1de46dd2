"""Confusion matrices under test sets of a single color (LNL, CVPR 2019, Figure 5)."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crossbias.formatting import count, percent, short
from crossbias.report.heatmap import COLORS
from crossbias.report.svg import inline, page_style
from crossbias.runs.read import FinishedRun
from crossbias.types import UNKNOWN

PREFIX: Final = "test-color-"
"""Test splits whose samples all have one bias value, whatever their class."""

_ACROSS = 5
_MOST_NAMES = 10


def confusion(run: FinishedRun, split: str) -> np.ndarray:
    """The share of each class (row) that got each answer (column)."""
    found, size = run.predictions[split], len(run.test.classes)
    cells = torch.bincount(found.target * size + found.answers, minlength=size * size)
    counts = cells.view(size, size).double().numpy()
    with np.errstate(invalid="ignore"):
        shares: np.ndarray = counts / counts.sum(1, keepdims=True)  # NaN for an absent class
    return shares


def confusion_matrices(name: str, run: FinishedRun, number: int) -> Markup | None:
    """One small matrix for each single-color split; None where the run has none.

    A model that follows the color shows a light column: one answer whatever the class.
    """
    splits = [split for split in run.predictions if split.startswith(PREFIX)]
    if not splits:
        return None
    tiles = _tiled([confusion(run, split) for split in splits])
    rows, across = math.ceil(len(splits) / _ACROSS), min(_ACROSS, len(splits))
    with page_style(f"confusion {number}"):
        figure = Figure(figsize=(0.6 + 1.3 * across, 0.7 + 1.5 * rows))
        axes = figure.subplots()
        axes.imshow(tiles, cmap=COLORS, vmin=0, vmax=1, aspect="auto")
        _label(axes, run, splits)
        return inline(figure, f"{name}: {_description(run, splits)}")


def _tiled(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Square matrices side by side, a few in a row, as one picture: ten axes are slow to draw."""
    size, corners = len(matrices[0]), _corners(len(matrices), len(matrices[0]))
    tops, lefts = zip(*corners, strict=True)
    tiles = np.full((max(tops) + size, max(lefts) + size), np.nan)
    for (top, left), matrix in zip(corners, matrices, strict=True):
        tiles[top : top + size, left : left + size] = matrix
    return tiles


def _corners(count: int, size: int) -> list[tuple[int, int]]:
    """The top and left of each matrix; above each there is room for its name."""
    room = max(1, round(0.25 * size))
    places = [divmod(place, _ACROSS) for place in range(count)]
    return [(row * (size + room) + room, column * (size + 1)) for row, column in places]


def _label(axes: Axes, run: FinishedRun, splits: Sequence[str]) -> None:
    """Each matrix's color and size above it; class names along the left and the lowest row."""
    size = len(run.test.classes)
    corners = _corners(len(splits), size)
    for (top, left), split in zip(corners, splits, strict=True):
        text = f"{short(_color(run, split), 10)}, n = {count(run.metrics[split].overall.n)}"
        axes.text(left - 0.5, top - 0.7, text, size=8, va="bottom", ha="left")
    step = math.ceil(size / _MOST_NAMES)
    names = [short(name, 8) for name in run.test.classes[::step]]
    offsets = np.arange(0, size, step)
    tops, lefts = (sorted(set(edges)) for edges in zip(*corners, strict=True))
    slant = 90 if max(map(len, names)) > 1 else 0
    axes.set_xticks([x + left for left in lefts for x in offsets], names * len(lefts), size=6.5)
    axes.tick_params(axis="x", rotation=slant)
    axes.set_yticks([y + top for top in tops for y in offsets], names * len(tops), size=6.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("answer")
    axes.set_ylabel("class")


def _color(run: FinishedRun, split: str) -> str:
    """The color that all samples of a split share; the end of the split's name if not known."""
    column = run.predictions[split].attributes.get(run.bias or "")
    values = set() if column is None else set(column.tolist())
    names = [run.metrics[split].biases[value] for value in values if value != UNKNOWN]
    return names[0] if len(names) == 1 else split.removeprefix(PREFIX)


def _description(run: FinishedRun, splits: Sequence[str]) -> str:
    parts = [
        f"{_color(run, split)} {percent(run.metrics[split].overall.value)}" for split in splits
    ]
    return "answers by class under one color at a time; accuracy: " + ", ".join(parts)
