"""What a run keeps beside its metrics: predictions, views of the model, labels of its data.

Each is one ``.npz`` file of named arrays. A file is written completely or not at all, and reading
it runs no code from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from crossbias.runs.files import load_arrays, save_arrays
from crossbias.types import UNKNOWN
from crossbias.verify.predictions import Predictions

_ATTRIBUTES = "attributes/"
_BOUNDARY = ("points", "answers", "limits")


@dataclass(frozen=True, eq=False, kw_only=True)
class Boundary:
    """The answers of a model over the plane, for inputs of two numbers.

    Args:
        points: ``(m, 2)`` float32, the inputs at ``Views.rows``.
        answers: ``(s, s)`` int64, the class at each place of a grid; rows go upward.
        limits: ``(4,)`` float32, left, right, lower and upper end of the grid.
    """

    points: Tensor
    answers: Tensor
    limits: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Views:
    """Features, maps and decision boundary of a model on one split, on the CPU.

    Args:
        rows: ``(m,)`` int64, the rows of the predictions that ``features`` belong to.
        features: ``(m, D)`` float16, what the head sees.
        maps: ``(k, h, w)`` float16 in [0, 1], Grad-CAM for the true class of each stored
            picture; None where the network has no maps or the inputs are no pictures.
        boundary: The answers in the plane, where inputs are two numbers.
    """

    rows: Tensor
    features: Tensor
    maps: Tensor | None = None
    boundary: Boundary | None = None

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.features):
            raise ValueError(f"{len(self.rows)} rows, but {len(self.features)} features")


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingLabels:
    """What is known about every training sample, on the CPU.

    Args:
        index: ``(n,)`` int64, each sample's row in tables of the full training set.
        target: ``(n,)`` int64 class numbers.
        attributes: For each name, ``(n,)`` int64 value numbers, ``UNKNOWN`` where not known.
    """

    index: Tensor
    target: Tensor
    attributes: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        for name, column in {"index": self.index, **self.attributes}.items():
            if column.shape != self.target.shape:
                raise ValueError(f"{name} has {len(column)} rows, target has {len(self.target)}")

    def bias(self, name: str | None) -> Tensor:
        """The values of an attribute, (n,); all UNKNOWN where there is none of that name."""
        return self.attributes.get(name or "", torch.full_like(self.target, UNKNOWN))


def save_predictions(path: Path, splits: Mapping[str, Predictions]) -> None:
    """Write the predictions of several splits to one file.

    The arrays are named ``split/index``, ``split/target``, ``split/probabilities``,
    ``split/attributes/NAME`` and, with pictures, ``split/pictures`` and ``split/picture_rows``.
    """
    tensors: dict[str, Tensor | None] = {}
    for split, found in splits.items():
        if "/" in split:
            raise ValueError(f"a split's name must not hold a slash, got {split!r}")
        names = ("index", "target", "probabilities", "pictures", "picture_rows")
        parts = {name: getattr(found, name) for name in names} | _prefixed(found.attributes)
        tensors |= {f"{split}/{name}": tensor for name, tensor in parts.items()}
    save_arrays(path, tensors)


def load_predictions(path: Path) -> dict[str, Predictions]:
    """Read what ``save_predictions`` wrote.

    Raises:
        CrossbiasError: The file is missing or damaged.
    """

    def build(tensors: dict[str, Tensor]) -> dict[str, Predictions]:
        return {
            split: Predictions(attributes=_attributes(parts), **_others(parts))
            for split, parts in _by_split(tensors).items()
        }

    return load_arrays(path, build)


def save_views(path: Path, splits: Mapping[str, Views]) -> None:
    """Write the views of several splits to one file."""
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

    def build(tensors: dict[str, Tensor]) -> dict[str, Views]:
        return {split: _views(parts) for split, parts in _by_split(tensors).items()}

    return load_arrays(path, build)


def save_labels(path: Path, labels: TrainingLabels) -> None:
    """Write the labels of a training set."""
    columns = _prefixed(labels.attributes)
    save_arrays(path, {"index": labels.index, "target": labels.target, **columns})


def load_labels(path: Path) -> TrainingLabels:
    """Read what ``save_labels`` wrote.

    Raises:
        CrossbiasError: The file is missing or damaged.
    """

    def build(tensors: dict[str, Tensor]) -> TrainingLabels:
        return TrainingLabels(attributes=_attributes(tensors), **_others(tensors))

    return load_arrays(path, build)


def _views(parts: dict[str, Tensor]) -> Views:
    boundary = {name: parts.pop(name) for name in _BOUNDARY if name in parts}
    return Views(**parts, boundary=Boundary(**boundary) if boundary else None)


def _by_split(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    splits: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        split, _, rest = name.partition("/")
        splits.setdefault(split, {})[rest] = tensor
    return splits


def _prefixed(attributes: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {_ATTRIBUTES + name: column for name, column in attributes.items()}


def _attributes(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(_ATTRIBUTES): column
        for name, column in tensors.items()
        if name.startswith(_ATTRIBUTES)
    }


def _others(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t for name, t in tensors.items() if not name.startswith(_ATTRIBUTES)}
