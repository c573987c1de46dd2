"""Confusion matrices under test sets of a single color (LNL, CVPR 2019, Figure 5)."""

import math
from typing import Final

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.figure import Figure

from crossbias.report.heatmap import COLORS, name_axis
from crossbias.report.runs import RunFolder
from crossbias.report.svg import inline, page_style, short
from crossbias.report.words import percent

PREFIX: Final = "test-color-"
"""Test splits whose samples all have one bias value, whatever their class."""

_ACROSS = 5


def confusion(run: RunFolder, split: str) -> np.ndarray:
    """Of the samples of each class (row), the share that got each answer (column)."""
    found, size = run.predictions[split], len(run.metrics[split].classes)
    cells = torch.bincount(found.target * size + found.answers, minlength=size * size)
    counts = cells.view(size, size).double().numpy()
    with np.errstate(invalid="ignore"):
        shares: np.ndarray = counts / counts.sum(1, keepdims=True)  # NaN for an absent class
    return shares


def confusion_matrices(name: str, run: RunFolder, number: int) -> Markup | None:
    """One small matrix for each single-color split; None where the run has none.

    A model that follows the color shows a light column: one answer whatever the class.

    Args:
        name: The run's name, for the description.
        run: The run.
        number: The figure's number among the confusions of the page.
    """
    splits = [split for split in run.predictions if split.startswith(PREFIX)]
    if not splits:
        return None
    rows = math.ceil(len(splits) / _ACROSS)
    with page_style(f"confusion {number}"):
        figure = Figure(figsize=(7.2, 0.5 + 1.75 * rows), layout="constrained")
        grid = figure.subplots(rows, min(_ACROSS, len(splits)), squeeze=False)
        for axes in grid.flat[len(splits) :]:
            axes.set_axis_off()
        for axes, split in zip(grid.flat, splits, strict=False):
            test = run.metrics[split]
            axes.imshow(confusion(run, split), cmap=COLORS, vmin=0, vmax=1)
            axes.set_title(f"{short(split.removeprefix(PREFIX), 12)}, n = {test.overall.n}", size=8)
            for axis in ("x", "y"):
                name_axis(axes, axis, test.classes if len(test.classes) <= 10 else (), "")
            axes.tick_params(length=0, labelsize=6)
            axes.spines[:].set_visible(False)
        figure.supxlabel("answer", size=9)
        figure.supylabel("class", size=9)
        return inline(figure, f"{name}: {_description(run, splits)}")


def _description(run: RunFolder, splits: list[str]) -> str:
    parts = [
        f"{split.removeprefix(PREFIX)} {percent(run.metrics[split].overall.value)}"
        for split in splits
    ]
    return "answers by class under one color at a time; accuracy: " + ", ".join(parts)
