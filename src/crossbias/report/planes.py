"""Samples in a plane: marks that differ in shape and color, and are told apart in gray."""

from collections.abc import Sequence
from typing import Any, Final

import matplotlib
import torch
from matplotlib.axes import Axes
from torch import Tensor

from crossbias.naming import short
from crossbias.types import UNKNOWN

MARKS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""Shapes; of more names than these, the colors alone tell neighbors apart."""

_MOST_IN_KEY = 10
_RESOLUTION = 180  # dots an inch of the marks, which are many and so are drawn as pixels


def scatter(axes: Axes, points: Tensor, labels: Tensor, names: Sequence[str], title: str) -> None:
    """Draw samples, one shape and color for each name, with a key that counts them.

    Args:
        axes: Where to draw.
        points: ``(m, 2)``.
        labels: ``(m,)`` numbers of names, ``UNKNOWN`` where not known.
        names: What the numbers stand for.
        title: What the names are.
    """
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
    """Features in the plane in which they vary most (PCA).

    Args:
        features: ``(m, D)``.

    Returns:
        ``(m, 2)`` float64 coordinates, of each axis the longest arm positive, and the shares of
        the variance they show.
    """
    centered = features.double().nan_to_num(0)
    centered = centered - centered.mean(0)
    # Of the samples' products, since there are few samples and often many features.
    variances, axes = torch.linalg.eigh(centered @ centered.mT)  # smallest first
    variances = variances.flip(0).clamp(min=0)
    found = torch.zeros(len(features), 2, dtype=torch.float64)
    kept = min(2, *features.shape)
    found[:, :kept] = axes.flip(1)[:, :kept] * variances[:kept].sqrt()
    # A component's sign is arbitrary; fix it, so that the same features give the same figure.
    extreme = found.gather(0, found.abs().argmax(0, keepdim=True))
    found = torch.where(extreme < 0, -found, found)
    shares = torch.zeros(2, dtype=torch.float64)
    shares[:kept] = variances[:kept] / variances.sum().clamp(min=1e-300)
    return found, (float(shares[0]), float(shares[1]))
