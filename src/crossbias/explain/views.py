"""Views: what is kept of a look into a model, so that a report needs neither model nor data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from crossbias.arrays import load_arrays, save_arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class Boundary:
    """What a model answers in the plane, for inputs of two numbers.

    Args:
        points: ``(m, 2)`` float32, the inputs at ``Views.rows``.
        answers: ``(s, s)`` int64, the class at each place of a grid, upward and then to the right.
        limits: ``(4,)`` float32, left, right, lower and upper end of the grid.
    """

    points: Tensor
    answers: Tensor
    limits: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Views:
    """A look into a model on one split, on the CPU.

    Args:
        rows: ``(m,)`` int64, the rows of the predictions that ``features`` are of.
        features: ``(m, D)`` float16, what the head sees.
        maps: ``(k, h, w)`` float16 in [0, 1], Grad-CAM for the true class of each stored
            picture; None where the network has no maps or the inputs are no pictures.
        boundary: Where inputs are two numbers.
    """

    rows: Tensor
    features: Tensor
    maps: Tensor | None = None
    boundary: Boundary | None = None

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.features):
            raise ValueError(f"{len(self.rows)} rows, but {len(self.features)} features")


def save_views(path: Path, splits: Mapping[str, Views]) -> None:
    """Write the views of several splits to one ``.npz`` file, whole or not at all."""
    tensors: dict[str, Tensor | None] = {}
    for split, views in splits.items():
        parts = {"rows": views.rows, "features": views.features, "maps": views.maps}
        if views.boundary is not None:
            parts |= {name: getattr(views.boundary, name) for name in _BOUNDARY}
        tensors |= {f"{split}/{name}": tensor for name, tensor in parts.items()}
    save_arrays(path, tensors)


def load_views(path: Path) -> dict[str, Views]:
    """Read what ``save_views`` wrote.

    Raises:
        CrossbiasError: The file is missing or damaged.
    """
    return load_arrays(path, _by_split)


_BOUNDARY = ("points", "answers", "limits")


def _by_split(tensors: dict[str, Tensor]) -> dict[str, Views]:
    splits: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        split, _, rest = name.rpartition("/")
        splits.setdefault(split, {})[rest] = tensor
    return {split: _views(parts) for split, parts in splits.items()}


def _views(parts: dict[str, Tensor]) -> Views:
    boundary = {name: parts.pop(name) for name in _BOUNDARY if name in parts}
    return Views(**parts, boundary=Boundary(**boundary) if boundary else None)
