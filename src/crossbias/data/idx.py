"""The idx files in which MNIST and its relatives are distributed, gzipped or plain."""

import gzip
import hashlib
import struct
import zlib
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError

_LARGEST: Final = 16 + 60_000 * 28 * 28
"""Bytes of the largest original file; nothing longer is unpacked, whatever a file claims."""


def read_idx(path: Path, *, sha256: str) -> Tensor:
    """The bytes of an idx file as a uint8 tensor of the shape that it states.

    Args:
        path: The file; a name that ends in ``.gz`` is unpacked.
        sha256: What the unpacked content must hash to.

    Raises:
        CrossbiasError: The file cannot be read, is cut short or damaged, or is another one.
    """
    content = _content(path)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise CrossbiasError(
            f"{path} is not the original file: the SHA-256 of its content is {found}, not "
            f"{sha256}; replace it by the official one"
        )
    # Four bytes, the last of which is the number of dimensions, then each as a 32-bit number.
    dimensions = content[3]
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    # A bytearray, because torch warns of memory that must not be written to.
    return torch.frombuffer(
        bytearray(content), dtype=torch.uint8, offset=4 + 4 * dimensions
    ).reshape(shape)


def _content(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            return file.read(_LARGEST + 1)
    except EOFError as error:
        raise CrossbiasError(
            f"{path} is cut short, as after an unfinished download; replace it by the whole file"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CrossbiasError(
            f"{path} is damaged, or no gzip file ({error}); replace it by the official one"
        ) from error
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
