"""Samples in a plane, as marks: features, decision boundaries, and the de-noiser's losses."""

from collections.abc import Sequence
from typing import Any, Final

import matplotlib
import torch
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from crossbias.formatting import percent, short
from crossbias.report.svg import CONFLICTING, FAINT, INK, SERIES, inline, page_style
from crossbias.runs.read import FinishedRun
from crossbias.types import UNKNOWN

MARKS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""Shapes of marks. With more names than shapes, shapes repeat and colors tell them apart."""

_MOST_MARKS = 2000  # at most this many marks are drawn, evenly spread over the samples
_MOST_IN_KEY = 10
_RESOLUTION = 180  # dots per inch; there are many marks, so they are drawn as pixels


def scatter(axes: Axes, points: Tensor, labels: Tensor, names: Sequence[str], title: str) -> None:
    """Draw samples (m, 2), one shape and color for each label (m,), with a key that counts them."""
    handles, shown = [], []
    for number in sorted(set(labels.tolist())):
        own = points[labels == number].double().numpy()
        style = _style(number, len(names))
        handle = axes.scatter(own[:, 0], own[:, 1], s=13, linewidths=0.3, rasterized=True, **style)
        handles.append(handle)
        name = "not known" if number == UNKNOWN else short(names[number], 12)
        shown.append(f"{name} ({len(own)})")
    axes.figure.set_dpi(_RESOLUTION)
    axes.set_title(f"by {short(title, 24)}", size=9, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    if len(shown) <= _MOST_IN_KEY:
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1)}
        axes.legend(handles, shown, ncols=2, fontsize=8, handletextpad=0.1, **place)


def _style(number: int, size: int) -> dict[str, Any]:
    """A color between dark and light, a shape, and an edge that shows on any ground."""
    if number == UNKNOWN:
        return {"color": "#888888", "marker": "."}
    share = 0.12 + 0.8 * number / max(size - 1, 1)
    color = matplotlib.colormaps["viridis"](share)
    return {"facecolor": color, "marker": MARKS[number % len(MARKS)], "edgecolor": "#777777"}


def principal_plane(features: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Features (m, D) in the plane in which they vary most (PCA), (m, 2) float64.

    Also the share of the variance along each axis. The largest number of each column is positive.
    """
    centered = features.double().nan_to_num(0)
    centered = centered - centered.mean(0)
    # There are few samples and often many features, so (m, m) is the smaller product.
    variances, axes = torch.linalg.eigh(centered @ centered.mT)  # smallest first
    variances = variances.flip(0).clamp(min=0)
    found = torch.zeros(len(features), 2, dtype=torch.float64)
    kept = min(2, *features.shape)
    found[:, :kept] = axes.flip(1)[:, :kept] * variances[:kept].sqrt()
    # The sign of a component is arbitrary; fixing it makes equal features give equal figures.
    extreme = found.gather(0, found.abs().argmax(0, keepdim=True))
    found = torch.where(extreme < 0, -found, found)
    shares = torch.zeros(2, dtype=torch.float64)
    shares[:kept] = variances[:kept] / variances.sum().clamp(min=1e-300)
    return found, (float(shares[0]), float(shares[1]))


def decision_boundary(name: str, run: FinishedRun, number: int) -> Markup | None:
    """The model's answers over the plane, with samples; None where inputs are not 2-D."""
    views = run.views.get(run.split)
    if views is None or views.boundary is None:
        return None
    left, right, bottom, top = views.boundary.limits.tolist()
    targets = run.judged.target[views.rows]
    answers = views.boundary.answers.numpy()
    with page_style(f"boundary {number}"):
        figure = Figure(figsize=(3.6, 3.6))
        axes = figure.subplots()
        edges = [number + 0.5 for number in range(len(run.test.classes) - 1)]
        axes.imshow(
            answers, extent=(left, right, bottom, top), origin="lower", aspect="auto",
            cmap="viridis", vmin=0, vmax=max(len(run.test.classes) - 1, 1), alpha=0.35,
        )  # fmt: skip
        if answers.min() < answers.max():
            axes.contour(
                answers, levels=edges, colors=INK, linewidths=1.2, origin="lower",
                extent=(left, right, bottom, top),
            )  # fmt: skip
        scatter(axes, views.boundary.points, targets, run.test.classes, "class")
        axes.set_xlabel("first input")
        axes.set_ylabel("second input")
        return inline(figure, f"{name}: answers over the plane, with {len(targets)} samples")


def feature_planes(name: str, run: FinishedRun, number: int) -> Markup | None:
    """What the head sees, in the plane in which it varies most; None where it was not kept.

    Two panels of the same points: where classes separate, the features tell them apart; where
    bias values do, the features still carry the bias.
    """
    views = run.views.get(run.split)
    if views is None or len(views.rows) < 3:
        return None
    points, shares = principal_plane(views.features)
    found = run.judged
    panels = [("class", found.target[views.rows], run.test.classes)]
    bias = found.attributes.get(run.bias or "")
    if run.bias and bias is not None and bool((bias[views.rows] != UNKNOWN).any()):
        panels.append((run.bias, bias[views.rows], run.test.biases))
    with page_style(f"features {number}"):
        figure = Figure(figsize=(3.6, 3.7 * len(panels)))
        grid = figure.subplots(len(panels), squeeze=False)
        for axes, (title, labels, names) in zip(grid.flat, panels, strict=True):
            scatter(axes, points, labels, names, title)
            axes.set_xlabel(f"first component, {percent(shares[0])} of the variance", size=8)
            axes.set_ylabel(f"second component, {percent(shares[1])}", size=8)
        shown = f"{len(points)} samples in the plane of the two principal components"
        kept = f"which hold {percent(sum(shares))} of the variance"
        return inline(figure, f"{name}: features of {shown}, {kept}")


def denoiser_scatter(name: str, run: FinishedRun, number: int) -> Markup | None:
    """Samples below the line are kept, those above dropped; None without a de-noiser.

    The figure ``denoiser`` reads three stages: the loss and the softmax entropy of each training
    row, and the threshold, delta of eq. 2.
    """
    stages = run.stages_of("denoiser", 3)
    if stages is None:
        return None
    losses, entropies, threshold = stages
    rows = run.labels.index if run.labels is not None else torch.arange(len(losses))
    losses, entropies, delta = losses[rows].float(), entropies[rows].float(), float(threshold)
    kept = int((losses < delta * entropies).sum())
    with page_style(f"denoiser {number}"):
        figure = Figure(figsize=(4.4, 3.2))
        _draw(figure.subplots(), losses, entropies, delta)
        told = f"{kept} of {len(losses)} training samples are kept"
        return inline(figure, f"{name}: {told}, those with a loss below {delta:.3g} times entropy")


def _draw(axes: Axes, losses: Tensor, entropies: Tensor, delta: float) -> None:
    clean = losses < delta * entropies
    step = max(1, len(losses) // _MOST_MARKS)
    for kept, marker, color in ((True, "o", SERIES[0]), (False, "x", CONFLICTING)):
        own = (clean == kept).nonzero().squeeze(1)[::step]
        label = f"{'kept' if kept else 'dropped'} ({int((clean == kept).sum())})"
        points = (entropies[own].numpy(), losses[own].numpy())
        axes.plot(*points, marker, color=color, markersize=2.5, label=label)
    end = float(entropies.max())
    axes.plot([0, end], [0, delta * end], color=INK, linewidth=1.2, label="threshold")
    axes.set_xlabel("entropy of the answer")
    axes.set_ylabel("loss")
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8)
