"""EncodedShard: image files in one file of the cache, decoded whenever they are read."""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from crossbias.data.images.cache_entry import places_of, read_records, read_sizes
from crossbias.errors import CrossbiasError

Decode = Callable[[BinaryIO], bytes]
"""Returns the pixels of an image; the message of its ``CrossbiasError`` follows a name."""


class EncodedShard:
    """Encoded images.

    Args:
        folder: The folder of the shard.
        shape: Number of the images, and shape of one.
        decode: Makes the pixels of an image.
    """

    decoded_when_read = True

    def __init__(self, folder: Path, shape: tuple[int, ...], decode: Decode) -> None:
        self.folder = folder
        self.shape = shape
        self.decode = decode

    def __len__(self) -> int:
        return self.shape[0]

    def opened(self) -> Callable[[Tensor], Tensor]:
        """Read where each image is, and what its pixels must be."""
        try:
            return _Reader(self)
        except OSError as error:
            raise self._gone(error.strerror or str(error)) from error

    def image(self, row: int, place: int, end: int, pixels: bytes) -> bytes:
        """Decode an image; its pixels must have the SHA-256 that they had when it was stored."""
        try:
            with open(self.folder / "encoded", "rb") as file:
                file.seek(place)
                content = file.read(end - place)
            found = self.decode(BytesIO(content))
        except OSError as error:
            raise self._gone(error.strerror or str(error)) from error
        except CrossbiasError as error:
            raise self._gone(f"image {row} {error}") from error
        if hashlib.sha256(found).digest() != pixels:
            raise self._gone(f"image {row} has other pixels than when it was stored")
        return found

    def _gone(self, why: str) -> CrossbiasError:
        return CrossbiasError(
            f"cannot read the cache {self.folder}: {why}; delete this folder, and its images are "
            f"stored again at the next start"
        )


class _Reader:
    """The images of an open shard."""

    def __init__(self, shard: EncodedShard) -> None:
        self.shard = shard
        self.places = places_of(read_sizes(shard.folder))
        self.pixels = np.ascontiguousarray(read_records(shard.folder)["pixels"])
        if not len(self.places) - 1 == len(self.pixels) == len(shard):
            raise OSError("its records are damaged")

    def __call__(self, numbers: Tensor) -> Tensor:
        images = np.empty((len(numbers), *self.shard.shape[1:]), np.uint8)

        def read(at: int, row: int) -> None:
            place, end = self.places[row : row + 2].tolist()
            pixels = self.shard.image(row, place, end, self.pixels[row].tobytes())
            images[at] = np.frombuffer(pixels, np.uint8).reshape(images.shape[1:])

        # The worker processes of a loader have one processor each.
        with ThreadPoolExecutor(processors() if get_worker_info() is None else 1) as pool:
            list(pool.map(read, range(len(images)), numbers.tolist()))
        return torch.from_numpy(images)


def processors() -> int:
    """Number of processors this process may use; decoding releases the interpreter's lock."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
