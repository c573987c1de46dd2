"""Labels: targets and attributes of the training rows, which stage tensors are addressed by."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from crossbias.arrays import load_arrays, save_arrays
from crossbias.data.dataset import BiasedDataset
from crossbias.types import UNKNOWN

_PREFIX = "attributes/"


@dataclass(frozen=True, eq=False, kw_only=True)
class Labels:
    """What is known of every training sample, on the CPU.

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


def save_labels(path: Path, data: BiasedDataset) -> None:
    """Write the labels of a training set."""
    columns = {_PREFIX + name: column for name, column in data.attributes.items()}
    save_arrays(path, {"index": data.index, "target": data.targets, **columns})


def load_labels(path: Path) -> Labels:
    """Read what ``save_labels`` wrote.

    Raises:
        CrossbiasError: The file is missing or damaged.
    """
    return load_arrays(path, _labels)


def _labels(tensors: dict[str, Tensor]) -> Labels:
    columns = {
        name.removeprefix(_PREFIX): column
        for name, column in tensors.items()
        if name.startswith(_PREFIX)
    }
    return Labels(index=tensors["index"], target=tensors["target"], attributes=columns)
