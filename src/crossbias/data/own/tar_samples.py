"""Samples in WebDataset tars: neighboring files whose names agree up to the first dot."""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from crossbias.data.own.table import as_text
from crossbias.errors import CrossbiasError

IMAGES: Final = frozenset(
    {*("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "pgm", "avif", "dcm")}
)
"""Endings of image files."""

TEXTS: Final = frozenset({"cls", "cls2", "class", "count", "index", "inx", "id", "txt", "text"})
"""Endings of text files, each of which is a cell of the table of labels."""

_LARGEST_TEXT = 2**20  # bytes of a text or JSON file; more is no label


class TarPlace(NamedTuple):
    """Where a file lies in a tar."""

    offset: int
    size: int


@dataclass(slots=True)
class TarSample:
    """One sample: an image and its labels."""

    key: str  # the name of its files up to the first dot
    image: TarPlace | None = None
    labels: dict[str, str] = field(default_factory=dict)


def tar_samples(path: Path) -> Iterator[TarSample]:
    """The samples of a tar, in order. Only headers and labels are read, and nothing is unpacked.

    A JSON file gives a label for each of its keys with a text, a number or a truth value. A text
    file gives one that is named by its ending, ``cls`` for ``0001.cls``, or by what is before it,
    ``hospital`` for ``0001.hospital.txt``. Files with other endings are ignored.
    """
    try:
        size = path.stat().st_size
        with tarfile.open(path, "r:") as tar:  # without compression, so that images can be found
            yield from _grouped(tar, path, size)
    except tarfile.TarError as error:
        raise CrossbiasError(
            f"{path} cannot be read as a tar without compression ({error}); unpack a .tar.gz with "
            f"gunzip, or write the tar again"
        ) from error
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error


def _grouped(tar: tarfile.TarFile, path: Path, size: int) -> Iterator[TarSample]:
    sample: TarSample | None = None
    while (member := tar.next()) is not None:
        tar.members = []  # type: ignore[attr-defined]  # else all headers stay in memory
        folder, _, name = member.name.rpartition("/")
        stem, dot, ending = name.partition(".")
        if not member.isreg() or not stem or not dot:
            continue
        if member.offset_data + member.size > size:
            raise CrossbiasError(f"{path} ends in the middle of {member.name}; copy it again")
        key = f"{folder}/{stem}" if folder else stem
        if sample is None or sample.key != key:
            if sample is not None:
                yield sample
            sample = TarSample(key)
        _add(sample, tar, member, ending.lower(), path)
    if sample is not None:
        yield sample


def _add(
    sample: TarSample, tar: tarfile.TarFile, member: tarfile.TarInfo, ending: str, path: Path
) -> None:
    """Add what a file says to its sample."""
    name, _, kind = ending.rpartition(".")
    if kind in IMAGES:
        if sample.image is not None:
            raise CrossbiasError(f"{path}: {sample.key} has two images; one is needed")
        sample.image = TarPlace(member.offset_data, member.size)
    elif (kind in TEXTS or kind == "json") and member.size <= _LARGEST_TEXT:
        labels = _labels(tar, member, name or kind, path)
        if twice := sorted(labels.keys() & sample.labels.keys()):
            raise CrossbiasError(f"{path}: {sample.key} has the label {twice[0]!r} twice")
        sample.labels |= labels


def _labels(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, path: Path) -> dict[str, str]:
    file = tar.extractfile(member)
    content = b"" if file is None else file.read()
    try:
        text = content.decode("utf-8-sig")
        if not member.name.lower().endswith(".json"):
            return {name: text.strip()}
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CrossbiasError(f"{path}: {member.name} cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise CrossbiasError(f"{path}: {member.name} must be a JSON object with a key for a label")
    return {
        label: as_text(value)
        for label, value in found.items()
        if value is None or isinstance(value, str | int | float)
    }
