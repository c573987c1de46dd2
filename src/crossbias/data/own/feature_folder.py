"""FeatureFolder: features that ``crossbias features`` wrote, as the splits of a data set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.source import Source, once
from crossbias.errors import CrossbiasError
from crossbias.runs.files import hash_of, load_arrays, read_json, save_arrays

ABOUT: Final = "features.json"
_FORMAT: Final = 1
_TARGET, _CLUSTER, _ATTRIBUTE = "target", "cluster", "attribute "  # names of arrays of labels


@dataclass(kw_only=True)
class FeatureFolder(Source):
    """What a network computes for each sample before its last layer, computed once.

    Args:
        path: The folder that ``crossbias features`` wrote.
    """

    name = "features"
    summary = "features:PATH, what `crossbias features` wrote: heads are trained in seconds"
    network = "linear"

    path: str = ""

    @property
    def available_splits(self) -> tuple[str, ...]:
        """The splits of the data that the features are of."""
        return tuple(self._about()["splits"])

    def options(self) -> dict[str, Any]:
        """None: the path is part of the name."""
        return {}

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Read one split; nothing is drawn, and nothing is read from ``root``."""
        about, folder = self._about(), Path(self.path)
        for name, known in zip(files_of(split), about["splits"][split], strict=True):
            if not (folder / name).is_file() or hash_of(folder / name) != known:
                raise CrossbiasError(
                    f"{folder / name} is damaged or missing; write the features again into another "
                    f"folder"
                )
        features = _read_features(folder / files_of(split)[0])
        data = load_arrays(
            folder / files_of(split)[1], lambda arrays: _labeled(features, arrays, about)
        )
        return replace(data, name=f"{self.name}:{self.path}", split=split)

    @once
    def _about(self) -> dict[str, Any]:
        path = Path(self.path, ABOUT)
        if not path.is_file():
            raise CrossbiasError(
                f"{self.path or '.'} holds no features: it has no {ABOUT}; write them with "
                f"crossbias features --data NAME --network NAME --out {self.path or 'FOLDER'}"
            )
        about = read_json(path)
        if not isinstance(about, dict) or not _is_description(**about):
            raise CrossbiasError(f"{path} is not of this version of crossbias, or damaged")
        return about


def files_of(split: str) -> tuple[str, str]:
    """The names of the files of a split: features, and labels."""
    return f"{split}.npy", f"{split}-labels.npz"


def write_labels(path: Path, data: BiasedDataset) -> None:
    """Write the labels of a split beside its features."""
    attributes = {f"{_ATTRIBUTE}{name}": value for name, value in data.attributes.items()}
    save_arrays(path, {_TARGET: data.targets, _CLUSTER: data.cluster, **attributes})


def described(data: BiasedDataset, splits: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What ``features.json`` says: how labels are called, and the hashes of each split's files."""
    return {
        "format": _FORMAT,
        "classes": data.classes,
        "bias": data.bias,
        "values": {name: list(data.values[name]) for name in data.attributes},
        "alignments": {name: table.tolist() for name, table in data.alignments.items()},
        "splits": {split: list(hashes) for split, hashes in splits.items()},
    }


def _is_description(
    format: Any = None, classes: Any = None, bias: Any = None, values: Any = None,
    alignments: Any = None, splits: Any = None, **_: Any,
) -> bool:  # fmt: skip
    """Whether a file says what ``described`` does, with splits that are in its folder."""
    names = format == _FORMAT and _are_texts(classes)
    tables = all(isinstance(each, dict) for each in (values, alignments, splits))
    return (
        names
        and tables
        and (bias is None or bias in values)
        and all(_are_texts(each) for each in values.values())
        and alignments.keys() <= values.keys()
        and all(isinstance(each, list) for each in alignments.values())
        and all(
            Path(split).name == split and _are_texts(hashes) and len(hashes) == len(files_of(split))
            for split, hashes in splits.items()
        )
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _read_features(path: Path) -> Tensor:
    """The array in a file; one that promises more than the file holds is refused."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CrossbiasError(f"{path} is damaged: {error}") from error
    if found.dtype != np.float32 or found.ndim != 2:
        raise CrossbiasError(f"{path} holds {found.dtype} of shape {found.shape}, not features")
    return torch.from_numpy(np.array(found))


def _labeled(
    features: Tensor, arrays: Mapping[str, Tensor], about: Mapping[str, Any]
) -> BiasedDataset:
    return BiasedDataset(
        inputs=features,
        targets=arrays[_TARGET],
        attributes={name: arrays[f"{_ATTRIBUTE}{name}"] for name in about["values"]},
        bias=about["bias"],
        classes=tuple(about["classes"]),
        values={name: tuple(values) for name, values in about["values"].items()},
        alignments={name: torch.tensor(table) for name, table in about["alignments"].items()},
        cluster=arrays.get(_CLUSTER),
    )
