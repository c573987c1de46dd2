"""Memory-mapped arrays of images, copies of some of their rows, and the folder of the cache."""

import math
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Final

import numpy as np
import torch
from torch import Tensor

from crossbias.errors import CrossbiasError

LARGEST_COPY: Final = 2**30
"""Up to this many bytes of images are copied in memory; more are copied into a file."""

CACHE_VARIABLE: Final = "CROSSBIAS_CACHE"
"""Environment variable with the folder of the cache, used where no folder is given."""

_CHUNK = 2**24  # bytes copied at a time


def mapped(file: Path | IO[bytes], shape: tuple[int, ...]) -> Tensor:
    """The uint8 array in a file, mapped into memory for reading only."""
    # Not a private map: the system would count it as memory that may be needed all at once,
    # and refuse a file that is larger than the machine's memory.
    array = np.memmap(file, np.uint8, "r", shape=shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def rows_of(inputs: Tensor, rows: Tensor) -> Tensor:
    """Copy some rows of an array, given by their numbers or by a mask.

    More than ``LARGEST_COPY`` bytes of images are copied into a memory-mapped file without a name
    in the folder of the cache. The file disappears with the tensor.
    """
    numbers = rows.nonzero().squeeze(1) if rows.dtype == torch.bool else rows
    row_bytes = max(1, inputs.nbytes // max(1, len(inputs)))
    if inputs.dtype != torch.uint8 or len(numbers) * row_bytes <= LARGEST_COPY:
        return inputs[numbers]
    cut = numbers.split(max(1, _CHUNK // row_bytes))  # type: ignore[no-untyped-call]
    return _in_a_file((inputs[part] for part in cut), (len(numbers), *inputs.shape[1:]))


def joined(first: Tensor, second: Tensor) -> Tensor:
    """The rows of two arrays of images in one, in memory or in a file as by ``rows_of``."""
    if first.nbytes + second.nbytes <= LARGEST_COPY:
        return torch.cat([first, second])
    step = max(1, _CHUNK * len(first) // max(1, first.nbytes))
    parts = chain(in_parts(first, step), in_parts(second, step))
    return _in_a_file(parts, (len(first) + len(second), *first.shape[1:]))


def in_parts(inputs: Tensor, size: int) -> Iterator[Tensor]:
    """So many rows at a time, each read when it is its turn."""
    return (inputs[start : start + size] for start in range(0, len(inputs), size))


def _in_a_file(parts: Iterable[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Copy images into a memory-mapped file without a name in the folder of the cache."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            for part in parts:
                file.write(part.numpy().tobytes())
            file.flush()
            return mapped(file, shape)
    except OSError as error:
        raise CrossbiasError(
            f"cannot write {math.prod(shape) / 1e9:.1f} GB of chosen images to {folder}: "
            f"{error.strerror or error}; free some space, or name another folder: {CACHE_VARIABLE}"
        ) from error


def cache_folder(given: Path | None = None) -> Path:
    """The folder of the cache: the given one, that of ``CROSSBIAS_CACHE``, or the user's own."""
    named = given or os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "crossbias"
    local = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    return Path(os.environ.get(local) or Path.home() / ".cache") / "crossbias"
