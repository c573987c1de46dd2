"""Predictions on disk: one ``.npz`` file for all splits of a run, read without executing it."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.storage import write_atomically
from crossbias.verify.predictions import Predictions


def save_predictions(path: Path, splits: Mapping[str, Predictions]) -> None:
    """Write the predictions of several splits to one ``.npz`` file, whole or not at all.

    The arrays are named ``split/index``, ``split/target``, ``split/probabilities``,
    ``split/attributes/NAME`` and, with pictures, ``split/pictures`` and ``split/picture_rows``.
    """
    arrays: dict[str, Any] = {}
    for split, predictions in splits.items():
        if "/" in split:
            raise ValueError(f"a split's name must not hold a slash, got {split!r}")
        arrays |= {f"{split}/{name}": t.numpy() for name, t in _tensors(predictions).items()}
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))


def load_predictions(path: Path) -> dict[str, Predictions]:
    """Read what ``save_predictions`` wrote; nothing in the file is executed.

    Raises:
        CrossbiasError: The file is missing or damaged.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        splits: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            split, _, rest = name.partition("/")
            splits.setdefault(split, {})[rest] = tensor
        return {split: _predictions(parts) for split, parts in splits.items()}
    except FileNotFoundError:
        raise CrossbiasError(f"{path} does not exist") from None
    except _UNREADABLE as error:
        raise CrossbiasError(f"{path} does not hold readable predictions: {error}") from error


_UNREADABLE = (
    *(OSError, EOFError, ValueError, TypeError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What a damaged ``.npz`` file makes zipfile, zlib, numpy and torch raise."""


def _tensors(predictions: Predictions) -> dict[str, Tensor]:
    """The stored tensors by name, without the split."""
    tensors = {
        "index": predictions.index,
        "target": predictions.target,
        "probabilities": predictions.probabilities,
        "pictures": predictions.pictures,
        "picture_rows": predictions.picture_rows,
    }
    tensors |= {f"attributes/{name}": column for name, column in predictions.attributes.items()}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _predictions(tensors: Mapping[str, Tensor]) -> Predictions:
    """The inverse of ``_tensors``."""
    prefix = "attributes/"
    attributes = {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
    named = {name: tensor for name, tensor in tensors.items() if not name.startswith(prefix)}
    return Predictions(attributes=attributes, **named)
