"""One shard of the cache on disk: the rows of an array, or of a part of a large one.

pixels      the rows, one after the other; where images stay encoded, the file is ``encoded``
sizes       beside ``encoded`` only: the size of each row in bytes
rows        for each row three SHA-256: of its identity, its file's content and its pixels;
            then their sum, which a record lacks that a full disk cut off; zeros until the row is
            written
index.json  shape and digest, and size and time of the file of the rows; written last

A row has its place before it is written, and what is written there does not depend on who writes
it. So two processes that write the same shard, where a file system loses locks, harm nothing.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from torch import Tensor

from crossbias.data.dataset import tensor_digest
from crossbias.data.memory_maps import mapped
from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json, write_json

FORMAT: Final = 2  # version of the files; shards with another version are ignored

_HASH: Final = np.dtype(f"V{hashlib.sha256().digest_size}")
_HASHES: Final = np.dtype([("identity", _HASH), ("content", _HASH), ("pixels", _HASH)])
RECORD: Final = np.dtype([*((name, _HASH) for name in _HASHES.fields or ()), ("sum", "<u8")])
"""The record of a row in the file ``rows``."""
_FACTORS: Final = np.arange(
    1, 2 * _HASHES.itemsize // 8, 2, dtype=np.uint64
)  # odd: no word becomes 0


class CachedRow(NamedTuple):
    """A row to store."""

    content: bytes  # SHA-256 of the file
    pixels: bytes  # SHA-256 of the pixels
    stored: bytes  # the pixels, or the file as it is where images stay encoded


@dataclass(frozen=True)
class CacheEntry:
    """One shard of the cache."""

    folder: Path  # of its files
    identities: np.ndarray  # (n,) SHA-256 of the identity of each row's image
    shape: tuple[int, ...]  # of one row
    sizes: np.ndarray | None = None  # (n,) bytes of each row's file; None where rows are decoded

    @classmethod
    def of(
        cls,
        kind: Path,
        identities: np.ndarray,
        shape: tuple[int, ...],
        sizes: np.ndarray | None = None,
    ) -> "CacheEntry":
        """The shard of these rows in the folder of their kind; it need not exist yet."""
        return cls(kind / entry_key(identities, shape), identities, shape, sizes)

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def stored(self) -> Path:
        """The file of the rows."""
        return self.folder / ("pixels" if self.sizes is None else "encoded")

    @cached_property
    def places(self) -> np.ndarray:
        """Where each row begins in the file of the rows, and where the last one ends, (n + 1,)."""
        if self.sizes is None:
            return np.arange(len(self) + 1, dtype=np.int64) * int(np.prod(self.shape))
        return places_of(self.sizes)

    @property
    def bytes(self) -> int:
        """Size of all rows."""
        return int(self.places[-1])

    def tensor(self) -> Tensor:
        """All decoded rows, memory-mapped and read-only."""
        return mapped(self.stored, (len(self), *self.shape))

    def digest(self) -> str | None:
        """Digest of the shard if it is finished and unchanged since; else None."""
        try:
            index, about = read_json(self.folder / "index.json"), self._about()
            lengths = {"rows": RECORD.itemsize} | ({} if self.sizes is None else {"sizes": 8})
            recorded = all(
                (self.folder / name).stat().st_size == len(self) * size
                for name, size in lengths.items()
            )
        except (CrossbiasError, OSError):
            return None
        if not recorded or not isinstance(index, dict) or index != index | about:
            return None
        digest = index.get("digest")
        return digest if isinstance(digest, str) else None

    def unwritten(self) -> np.ndarray:
        """Numbers of the rows that have no record; what was written is not looked at."""
        records = read_records(self.folder)
        if len(records) != len(self) or not self.stored.exists():
            return np.arange(len(self))
        return np.flatnonzero(records["identity"] != self.identities)

    def missing(self) -> list[int]:
        """Numbers of the rows that are not written, or that differ from their record."""
        records = read_records(self.folder)
        if len(records) != len(self) or not self.stored.exists():
            return list(range(len(self)))
        return differing_rows(self.stored, self.places, self._seals(records))

    def row_bytes(self, rows: Sequence[int] | np.ndarray) -> int:
        """Size of some rows."""
        return int(np.diff(self.places)[rows].sum())

    def check_size(self, number: int, made: CachedRow) -> None:
        """Refuse what does not fit into its place: a file that has changed since it was listed."""
        place, end = self.places[number : number + 2].tolist()
        if len(made.stored) != end - place:
            raise CrossbiasError("changed while it was read; start again")

    @contextmanager
    def writer(self) -> Iterator[Callable[[int, CachedRow], None]]:
        """A function that writes a row; written rows survive a killed process."""
        (self.folder / "index.json").unlink(missing_ok=True)
        if self.sizes is not None:
            self.sizes.astype(np.int64).tofile(self.folder / "sizes")
        rows = self.folder / "rows"
        for path, size in ((self.stored, self.bytes), (rows, len(self) * RECORD.itemsize)):
            path.touch()
            os.truncate(path, size)
        # Unbuffered: the record of a row never reaches the system before the row.
        with open(self.stored, "r+b", 0) as stored_file, open(rows, "r+b", 0) as rows_file:

            def write(number: int, made: CachedRow) -> None:
                hashes = self.identities[number].tobytes() + made.content + made.pixels
                record = hashes + _sums(np.frombuffer(hashes, "<u8")).tobytes()
                _write_at(stored_file, int(self.places[number]), made.stored)
                _write_at(rows_file, number * RECORD.itemsize, record)

            yield write
            os.fsync(stored_file.fileno())
            os.fsync(rows_file.fileno())

    def finish(self) -> str:
        """Read all rows back, write the index, which completes the shard; return its digest."""
        if self.missing():
            raise CrossbiasError(
                f"the cache {self.folder} does not hold what was written to it; start again, and "
                f"name a folder on another disk with CROSSBIAS_CACHE if that does not help"
            )
        if self.sizes is None:
            digest = tensor_digest(self.tensor())
        else:
            digest = rows_digest((len(self), *self.shape), [read_records(self.folder)["pixels"]])
        write_json(self.folder / "index.json", self._about() | {"digest": digest})
        return digest

    def _seals(self, records: np.ndarray) -> np.ndarray:
        return seals_of(records, encoded=self.sizes is not None)

    def _about(self) -> dict[str, object]:
        """Format and shape, and a stamp that reveals whether the rows changed."""
        status, shape = self.stored.stat(), [len(self), *self.shape]
        stamp = {"size": status.st_size, "modified": status.st_mtime_ns}
        return {"format": FORMAT, "shape": shape, **stamp}


def hashed(identities: Iterable[str]) -> np.ndarray:
    """SHA-256 of each identity, (n,)."""
    digests = b"".join(hashlib.sha256(identity.encode()).digest() for identity in identities)
    return np.frombuffer(digests, _HASH)


def entry_key(identities: np.ndarray, shape: tuple[int, ...]) -> str:
    """The name of the folder of some rows."""
    key = hashlib.sha256(repr((FORMAT, shape)).encode() + identities.tobytes())
    return key.hexdigest()[:32]


def read_records(folder: Path) -> np.ndarray:
    """The records of a shard, finished or not; empty without a file."""
    try:
        content = (folder / "rows").read_bytes()
    except OSError:
        return np.empty(0, RECORD)
    return records_in(content)


def records_in(content: bytes) -> np.ndarray:
    """Records of rows; one that was not written to its end is all zeros, as before."""
    records = np.frombuffer(content, RECORD, len(content) // RECORD.itemsize).copy()
    words = records.view("<u8").reshape(len(records), RECORD.itemsize // 8)
    records[_sums(words[:, :-1]) != words[:, -1]] = np.zeros((), RECORD)
    return records


def _sums(words: np.ndarray) -> np.ndarray:
    """A sum over the last axis, modulo 2^64, that notices words that are missing."""
    found: np.ndarray = (words * _FACTORS).sum(-1, dtype=np.uint64)
    return found


def read_sizes(folder: Path) -> np.ndarray:
    """The size of each image of a shard of encoded images."""
    return np.fromfile(folder / "sizes", np.int64)


def seals_of(records: np.ndarray, *, encoded: bool) -> np.ndarray:
    """The SHA-256 of what is stored of each row: its file, or its pixels."""
    return np.asarray(records["content" if encoded else "pixels"])


def places_of(sizes: np.ndarray) -> np.ndarray:
    """Where each row of these sizes begins, and where the last one ends, (n + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def differing_rows(path: Path, places: np.ndarray, seals: np.ndarray) -> list[int]:
    """Numbers of the rows in a file whose SHA-256 is not the one they should have."""
    different = []
    with open(path, "rb") as file:
        for number, size in enumerate(np.diff(places).tolist()):
            if hashlib.sha256(file.read(size)).digest() != seals[number].tobytes():
                different.append(number)
    return different


def rows_digest(shape: tuple[int, ...], hashes: Iterable[np.ndarray]) -> str:
    """SHA-256 of a shape and of the SHA-256 of each row's pixels, whatever shard has them."""
    digest = hashlib.sha256(repr(shape).encode())
    for part in hashes:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _write_at(file: Any, place: int, content: bytes) -> None:
    """Write all of it: a disk that is nearly full takes a part, and the rest is the error."""
    assert isinstance(file, FileIO)
    file.seek(place)
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
