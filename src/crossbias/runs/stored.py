"""What a run keeps beside its metrics: predictions, views of the model, labels of its data.

Each is one ``.npz`` file of named arrays. A file is written completely or not at all, and reading
it runs no code from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from crossbias.runs.files import load_arrays, save_arrays
from crossbias.types import UNKNOWN
from crossbias.verify.predictions import Predictions

_ATTRIBUTES = "attributes/"
_BOUNDARY = ("points", "answers", "limits")
_Part = TypeVar("_Part")
_KINDS = {  # type and number of dimensions; all others are columns of int64
    "probabilities": (torch.float32, 2),
    "pictures": (torch.uint8, 4),
    "features": (torch.float16, 2),
    "maps": (torch.float16, 3),
    "points": (torch.float32, 2),
    "answers": (torch.int64, 2),
    "limits": (torch.float32, 1),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Boundary:
    """The answers of a model over the plane, for inputs of two numbers."""

    points: Tensor  # (m, 2) float32, the inputs at Views.rows
    answers: Tensor  # (s, s) int64, the class at each place of a grid; rows go upward
    limits: Tensor  # (4,) float32, left, right, lower and upper end of the grid


@dataclass(frozen=True, eq=False, kw_only=True)
class Views:
    """Features, maps and decision boundary of a model on one split, on the CPU."""

    rows: Tensor  # (m,) int64, the rows of the predictions that the features belong to
    features: Tensor  # (m, D) float16, what the head sees
    # (k, h, w) float16 in [0, 1], Grad-CAM for the true class of each stored picture; None where
    # the network has no maps or the inputs are no pictures
    maps: Tensor | None = None
    boundary: Boundary | None = None  # where inputs are two numbers

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.features):
            raise ValueError(f"{len(self.rows)} rows, but {len(self.features)} features")


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingLabels:
    """What is known about every training sample, on the CPU."""

    index: Tensor  # (n,) int64, each sample's row in tables of the full training set
    target: Tensor  # (n,) int64 class numbers
    attributes: Mapping[str, Tensor]  # (n,) int64 value numbers each, UNKNOWN where not known
    cluster: Tensor | None = None  # (n,) int64, equal for samples that belong together

    def __post_init__(self) -> None:
        columns = {"index": self.index, **self.attributes}
        columns |= {} if self.cluster is None else {"cluster": self.cluster}
        for name, column in columns.items():
            if column.shape != self.target.shape:
                raise ValueError(f"{name} has {len(column)} rows, target has {len(self.target)}")

    def bias(self, name: str | None) -> Tensor:
        """The values of an attribute, (n,); all UNKNOWN where there is none of that name."""
        return self.attributes.get(name or "", torch.full_like(self.target, UNKNOWN))


def save_predictions(path: Path, splits: Mapping[str, Predictions]) -> None:
    """Write the predictions of several splits to one file.

    The arrays are named ``split/index``, ``split/target``, ``split/probabilities``,
    ``split/attributes/NAME``, with clusters ``split/cluster``, and with pictures
    ``split/pictures`` and ``split/picture_rows``.
    """
    for split in splits:
        if "/" in split:
            raise ValueError(f"a split's name must not hold a slash, got {split!r}")
    _save_splits(path, {split: _columns(found) for split, found in splits.items()})


def load_predictions(path: Path) -> dict[str, Predictions]:
    """Read what ``save_predictions`` wrote."""
    return _load_splits(path, lambda tensors: Predictions(**_arguments(tensors)))


def save_views(path: Path, splits: Mapping[str, Views]) -> None:
    """Write the views of several splits to one file."""
    parts = {split: dict(vars(views)) for split, views in splits.items()}
    for tensors in parts.values():
        boundary = tensors.pop("boundary")
        tensors.update(vars(boundary) if boundary else {})
    _save_splits(path, parts)


def load_views(path: Path) -> dict[str, Views]:
    """Read what ``save_views`` wrote."""
    return _load_splits(path, _views)


def save_labels(path: Path, labels: TrainingLabels) -> None:
    """Write the labels of a training set."""
    save_arrays(path, _columns(labels))


def load_labels(path: Path) -> TrainingLabels:
    """Read what ``save_labels`` wrote."""
    return load_arrays(path, lambda tensors: TrainingLabels(**_arguments(_checked(tensors))))


def _views(tensors: dict[str, Tensor]) -> Views:
    boundary = {name: tensors.pop(name) for name in _BOUNDARY if name in tensors}
    return Views(**tensors, boundary=Boundary(**boundary) if boundary else None)


def _save_splits(path: Path, splits: Mapping[str, Mapping[str, Tensor | None]]) -> None:
    named = ((split, *part) for split, parts in splits.items() for part in parts.items())
    save_arrays(path, {f"{split}/{name}": tensor for split, name, tensor in named})


def _load_splits(path: Path, build: Callable[[dict[str, Tensor]], _Part]) -> dict[str, _Part]:
    """What ``build`` makes of the tensors of each split."""

    def build_all(tensors: dict[str, Tensor]) -> dict[str, _Part]:
        splits: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            split, _, rest = name.partition("/")
            splits.setdefault(split, {})[rest] = tensor
        return {split: build(_checked(parts)) for split, parts in splits.items()}

    return load_arrays(path, build_all)


def _checked(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, if their types and numbers of dimensions are those of a run."""
    for name, tensor in tensors.items():
        kind, dimensions = _KINDS.get(name, (torch.int64, 1))  # an attribute
        if tensor.ndim != dimensions or tensor.dtype != kind:
            raise ValueError(f"{name} is a tensor of {tensor.dtype} with {tensor.ndim} dimensions")
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{name} has numbers that are not finite")
    return tensors


def _columns(labeled: Predictions | TrainingLabels) -> dict[str, Tensor | None]:
    """The tensors by name; those of an attribute are named ``attributes/NAME``."""
    tensors = dict(vars(labeled))
    attributes = tensors.pop("attributes")
    return tensors | {_ATTRIBUTES + name: column for name, column in attributes.items()}


def _arguments(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The constructor's arguments, from what ``_columns`` made."""
    attributes = [name for name in tensors if name.startswith(_ATTRIBUTES)]
    found: dict[str, Any] = {name: t for name, t in tensors.items() if name not in attributes}
    return found | {
        "attributes": {name.removeprefix(_ATTRIBUTES): tensors[name] for name in attributes}
    }
