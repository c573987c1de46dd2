"""Named arrays in one ``.npz`` file, read back without running anything from it."""

import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.storage import write_atomically

_Content = TypeVar("_Content")

_UNREADABLE = (
    *(OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What a damaged or foreign ``.npz`` file makes zipfile, zlib, numpy and torch raise."""


def save_arrays(path: Path, tensors: Mapping[str, Tensor | None]) -> None:
    """Write tensors by name, whole or not at all; those that are None are left out."""
    arrays: dict[str, Any] = {name: t.numpy() for name, t in tensors.items() if t is not None}
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))


def load_arrays(path: Path, build: Callable[[dict[str, Tensor]], _Content]) -> _Content:
    """What ``build`` makes of the tensors that ``save_arrays`` wrote.

    Raises:
        CrossbiasError: The file is missing, damaged, or not what ``build`` expects.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return build({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    except FileNotFoundError:
        raise CrossbiasError(f"{path} does not exist") from None
    except _UNREADABLE as error:
        raise CrossbiasError(f"{path} is damaged: {error}; train the run again") from error
