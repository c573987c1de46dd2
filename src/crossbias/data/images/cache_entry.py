"""One array of the cache on disk, in three files, and a search through the rows of all arrays.

pixels      the rows, one after the other
rows        for each row three SHA-256: of its identity, its file's content and its pixels;
            zeros until the row is written
index.json  shape and digest, and size and time of ``pixels``; written last
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from torch import Tensor

from crossbias.data.dataset import tensor_digest
from crossbias.data.memory_maps import mapped
from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json, write_json

FORMAT: Final = 1  # version of the files; arrays with another version are ignored

_HASH = hashlib.sha256().digest_size
_RECORD = 3 * _HASH
_SPARE = 64 * 2**20  # bytes to leave free on the disk


class DecodedRow(NamedTuple):
    """A decoded row."""

    content: bytes  # SHA-256 of the file
    pixels: bytes


class RowRecord(NamedTuple):
    """The record of a row in the file ``rows``: three SHA-256."""

    identity: bytes
    content: bytes
    pixels: bytes


@dataclass(frozen=True)
class CacheEntry:
    """One array of the cache."""

    folder: Path  # of its files
    identities: Sequence[bytes]  # for each row, the SHA-256 of the identity of its image
    shape: tuple[int, ...]  # of one row

    @classmethod
    def of(cls, kind: Path, identities: Sequence[str], shape: tuple[int, ...]) -> "CacheEntry":
        """The entry of these rows in the folder of their kind; it need not exist yet."""
        hashed = [hashlib.sha256(identity.encode()).digest() for identity in identities]
        key = hashlib.sha256(repr((FORMAT, shape)).encode() + b"".join(hashed))
        return cls(kind / key.hexdigest()[:32], hashed, shape)

    @property
    def pixels(self) -> Path:
        """The file of the rows."""
        return self.folder / "pixels"

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return int(np.prod(self.shape))

    def tensor(self) -> Tensor:
        """All rows, memory-mapped and read-only."""
        return mapped(self.pixels, (len(self.identities), *self.shape))

    def digest(self) -> str | None:
        """Digest of the array if it is finished and unchanged since; else None."""
        try:
            index, about = read_json(self.folder / "index.json"), self._about()
        except (CrossbiasError, OSError):
            return None
        if not isinstance(index, dict) or index != index | about:
            return None
        digest = index.get("digest")
        return digest if isinstance(digest, str) else None

    def missing(self) -> list[int]:
        """Numbers of the rows that are not written or whose pixels differ from their record."""
        records = read_records(self.folder)
        if len(records) != len(self.identities) or not self.pixels.exists():
            return list(range(len(self.identities)))
        missing = []
        with open(self.pixels, "rb") as file:
            for number, record in enumerate(records):
                pixels = file.read(self.row_bytes)
                if hashlib.sha256(pixels).digest() != record.pixels:
                    missing.append(number)
        return missing

    def check_room(self, rows: int) -> None:
        """Check, before anything is written, that the disk has room for the rows."""
        needed, free = rows * self.row_bytes, shutil.disk_usage(self.folder).free
        if needed + _SPARE > free:
            raise CrossbiasError(
                f"{rows:,} images need {needed / 1e9:.1f} GB, but the cache {self.folder} has "
                f"{free / 1e9:.1f} GB free; name a folder on a larger disk with CROSSBIAS_CACHE, "
                f"choose smaller images, or free some space"
            )

    @contextmanager
    def writer(self) -> Iterator[Callable[[int, DecodedRow], None]]:
        """A function that writes a row; written rows survive a killed process."""
        (self.folder / "index.json").unlink(missing_ok=True)
        rows = self.folder / "rows"
        for path, size in ((self.pixels, self.row_bytes), (rows, _RECORD)):
            path.touch()
            os.truncate(path, len(self.identities) * size)
        # Unbuffered: the record of a row never reaches the system before its pixels.
        with open(self.pixels, "r+b", 0) as pixels_file, open(rows, "r+b", 0) as rows_file:

            def write(number: int, made: DecodedRow) -> None:
                pixels_file.seek(number * self.row_bytes)
                pixels_file.write(made.pixels)
                rows_file.seek(number * _RECORD)
                seen = hashlib.sha256(made.pixels).digest()
                rows_file.write(self.identities[number] + made.content + seen)

            yield write
            os.fsync(pixels_file.fileno())
            os.fsync(rows_file.fileno())

    def finish(self) -> str:
        """Write the index, which completes the entry; return the digest of the array."""
        digest = tensor_digest(self.tensor())
        write_json(self.folder / "index.json", self._about() | {"digest": digest})
        return digest

    def _about(self) -> dict[str, object]:
        """Format and shape, and a stamp that reveals whether the pixels changed."""
        status, shape = self.pixels.stat(), [len(self.identities), *self.shape]
        stamp = {"size": status.st_size, "modified": status.st_mtime_ns}
        return {"format": FORMAT, "shape": shape, **stamp}


def read_records(folder: Path) -> list[RowRecord]:
    """The records of an entry, finished or not; empty without a file."""
    try:
        content = (folder / "rows").read_bytes()
    except OSError:
        return []
    return [
        RowRecord(*(content[at + part * _HASH : at + (part + 1) * _HASH] for part in range(3)))
        for at in range(0, len(content) - _RECORD + 1, _RECORD)
    ]


class _RowPlace(NamedTuple):
    path: Path
    number: int
    record: RowRecord


class KnownRows:
    """The rows of all arrays of one kind, by identity or by content.

    A file that moved, or that is now in another split, has the same content, so its pixels are
    copied instead of decoded. The records of an array are read when a row is not in those before:
    a further split of known images needs a few arrays, however many there are.
    """

    def __init__(self, kind: Path, row_bytes: int) -> None:
        self.row_bytes = row_bytes
        self._places: dict[bytes, _RowPlace] = {}
        self._lock = Lock()
        # Large arrays know most of the images. Each is popped from the end.
        self._unread = sorted(kind.iterdir(), key=_size_of_records)

    def find(self, key: bytes) -> DecodedRow | None:
        """The row with this identity or content, if its pixels still match their record."""
        place = self._place(key)
        if place is None:
            return None
        try:
            with open(place.path, "rb") as file:
                file.seek(place.number * self.row_bytes)
                pixels = file.read(self.row_bytes)
        except OSError:
            return None  # deleted in the meantime; the image is decoded again
        if hashlib.sha256(pixels).digest() != place.record.pixels:
            return None
        return DecodedRow(place.record.content, pixels)

    def _place(self, key: bytes) -> _RowPlace | None:
        with self._lock:  # several threads look for rows
            while key not in self._places and self._unread:
                folder = self._unread.pop()
                for number, record in enumerate(read_records(folder)):
                    place = _RowPlace(folder / "pixels", number, record)
                    self._places.setdefault(record.identity, place)
                    self._places.setdefault(record.content, place)
            return self._places.get(key)


def _size_of_records(folder: Path) -> tuple[int, str]:
    """Size of the file ``rows`` of an array, and the name, which orders arrays of equal size."""
    try:
        return (folder / "rows").stat().st_size, folder.name
    except OSError:
        return 0, folder.name
