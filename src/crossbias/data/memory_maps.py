"""Arrays in memory-mapped files, chosen rows of them, and the folder in which they lie."""

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import IO, Final

import numpy as np
import torch
from torch import Tensor

from crossbias.errors import CrossbiasError

LARGEST_COPY: Final = 2**30
"""Bytes of images that are copied in memory; more are copied into a file."""

CACHE_VARIABLE: Final = "CROSSBIAS_CACHE"
"""Environment variable that names the folder of the cache, where none is given."""

_CHUNK = 2**24  # bytes at a time


def mapped(file: Path | IO[bytes], shape: tuple[int, ...]) -> Tensor:
    """The uint8 array in a file, mapped into memory for reading only."""
    # Not a private map: the system would count it as memory that may all be needed at once,
    # and refuse what is larger than the machine has.
    array = np.memmap(file, np.uint8, "r", shape=shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def rows_of(inputs: Tensor, rows: Tensor) -> Tensor:
    """Some rows of an array, in a new one.

    Many images, as most of a data set that is mapped itself, come to lie in a file without a name
    in the folder of the cache. It is mapped into memory and is gone when the tensor is.

    Args:
        inputs: ``(n, ...)``.
        rows: Their numbers, or a mask ``(n,)``.
    """
    numbers = rows.nonzero().squeeze(1) if rows.dtype == torch.bool else rows
    row_bytes = max(1, inputs[:1].nbytes)
    if inputs.dtype != torch.uint8 or len(numbers) * row_bytes <= LARGEST_COPY:
        return inputs[numbers]
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            for part in numbers.split(max(1, _CHUNK // row_bytes)):  # type: ignore[no-untyped-call]
                file.write(inputs[part].numpy().tobytes())
            file.flush()
            return mapped(file, (len(numbers), *inputs.shape[1:]))
    except OSError as error:
        raise CrossbiasError(
            f"cannot write {len(numbers) * row_bytes / 1e9:.1f} GB of chosen images to {folder}: "
            f"{error.strerror or error}; make room, or name another folder: {CACHE_VARIABLE}"
        ) from error


def cache_folder(given: Path | None = None) -> Path:
    """The folder of the cache: the one given, what ``CROSSBIAS_CACHE`` names, or the user's."""
    named = given or os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "crossbias"
    local = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    return Path(os.environ.get(local) or Path.home() / ".cache") / "crossbias"
