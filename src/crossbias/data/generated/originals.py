"""The original files of MNIST and Fashion-MNIST: found or downloaded, verified, and read."""

import gzip
import hashlib
import struct
import zlib
from pathlib import Path
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

from crossbias.data.generated.download import download
from crossbias.data.source import ROOT_VARIABLE
from crossbias.errors import CrossbiasError

Collection = Literal["mnist", "fashion-mnist"]
Part = Literal["train", "t10k"]

_KINDS: Final = ("images-idx3", "labels-idx1")
_FILES: Final = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in _KINDS)

CHECKSUMS: Final[dict[Collection, dict[str, str]]] = {
    "mnist": dict(zip(_FILES, (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ), strict=True)),
    "fashion-mnist": dict(zip(_FILES, (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ), strict=True)),
}  # fmt: skip
"""SHA-256 of each unpacked file, computed from the gzip files with the published MD5."""

_LARGEST: Final = 16 + 60_000 * 28 * 28
"""Size of the largest original file in bytes; no more than this is ever unpacked."""


class Original(NamedTuple):
    """Images and labels in the order of the files."""

    images: Tensor  # (n, 28, 28) uint8
    labels: Tensor  # (n,) int64


def load_original(collection: Collection, part: Part, *, root: Path | None) -> Original:
    """Read the training (``train``) or test (``t10k``) part of a collection.

    Files that are missing in its folder in ``root``, the folder of all data, are downloaded there
    if it can be written to and there is a network.
    """
    if root is None:
        raise CrossbiasError(
            f"the files of {collection} are needed: pass root= (--root on the command line), or "
            f"set {ROOT_VARIABLE}, to a folder with {collection}/{part}-images-idx3-ubyte.gz "
            f"and {collection}/{part}-labels-idx1-ubyte.gz"
        )
    names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
    folder, sums = root / collection, CHECKSUMS[collection]
    if None in (_found(folder, name) for name in names):
        _fetch(collection, folder)
    images, labels = (
        read_idx(_found(folder, name) or folder / name, sha256=sums[name]) for name in names
    )
    return Original(images, labels.long())


def _found(folder: Path, name: str) -> Path | None:
    candidates = (folder / f"{name}.gz", folder / name)
    return next((path for path in candidates if path.exists()), None)


def _fetch(collection: Collection, folder: Path) -> None:
    """Download the missing files; on failure name them and where to put them."""
    absent = [f"{name}.gz" for name in CHECKSUMS[collection] if _found(folder, name) is None]
    problem = download(collection, absent, folder)
    if problem is not None:
        raise CrossbiasError(
            f"{folder} lacks {', '.join(absent)}; put the original files there, gzipped or not "
            f"(the download failed: {problem})"
        )


def read_idx(path: Path, *, sha256: str) -> Tensor:
    """Read an idx file, gzipped or not, as a uint8 tensor of the shape in its header.

    The hash is that of the unpacked content.
    """
    content = _content(path)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise CrossbiasError(
            f"{path} is not the original file: the SHA-256 of its content is {found}, not "
            f"{sha256}; replace it by the official one"
        )
    # Four bytes, the last with the number of dimensions, then each dimension in 32 bits.
    dimensions = content[3]
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    # A bytearray, because torch warns about memory that is read-only.
    return torch.frombuffer(
        bytearray(content), dtype=torch.uint8, offset=4 + 4 * dimensions
    ).reshape(shape)


def _content(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            return file.read(_LARGEST + 1)
    except EOFError as error:
        raise CrossbiasError(
            f"{path} is truncated, as after an unfinished download; replace it by the whole file"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CrossbiasError(
            f"{path} is damaged or not a gzip file ({error}); replace it by the official one"
        ) from error
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
