"""KnownRows: a search through the rows of all shards of one kind, by identity or by content."""

import hashlib
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np

from crossbias.data.images.cache_entry import (
    RECORD,
    CachedRow,
    places_of,
    read_records,
    read_sizes,
    records_in,
    seals_of,
)

_HEAD = np.dtype(np.uint64)  # the first bytes of a hash, by which rows are sorted


class KnownRows:
    """The rows of all shards of one kind.

    A file that moved, or that is now in another split, has the same content, so its row is copied
    instead of made. The records of a shard are read when a row is not in those before: a further
    split of known images needs a few shards, however many there are. A row takes 32 bytes here.
    """

    def __init__(self, kind: Path, row_bytes: int | None) -> None:
        """``row_bytes`` is the size of a row of pixels; None where images stay encoded."""
        self.row_bytes = row_bytes
        self._lock = Lock()
        # Large shards know most of the images. Each is popped from the end.
        self._unread = sorted(kind.iterdir(), key=_size_of_records)
        self._read: list[Path] = []
        self._heads = np.empty(0, _HEAD)  # sorted
        self._shards = np.empty(0, np.int32)  # beside each: the number of its shard
        self._numbers = np.empty(0, np.int32)  # and its row

    def find(self, key: bytes) -> CachedRow | None:
        """The row with this identity or content, if what is stored still matches its record."""
        with self._lock:  # several threads look for rows
            shards, numbers = self._candidates(key)
            while not len(shards) and self._unread:
                self._read_more()
                shards, numbers = self._candidates(key)
        for shard, number in zip(shards, numbers, strict=True):
            if (row := self._stored_row(self._read[shard], int(number), key)) is not None:
                return row
        return None

    def _candidates(self, key: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Shards and rows that may have a hash: its first bytes are the same.

        Thousands of rows may be copies of one image, so nothing is made of each of them.
        """
        head = np.frombuffer(key, _HEAD, 1)[0]
        first, last = (int(np.searchsorted(self._heads, head, side)) for side in ("left", "right"))
        return self._shards[first:last], self._numbers[first:last]

    def _read_more(self) -> None:
        """Read the records of as many rows again as are known, so that few sorts are needed."""
        heads, shards, numbers = [self._heads], [self._shards], [self._numbers]
        wanted, read = len(self._heads), 0
        while self._unread and (read == 0 or read < wanted):
            folder = self._unread.pop()
            records = read_records(folder)
            written = np.flatnonzero(records["identity"] != np.zeros((), RECORD["identity"]))
            for part in ("identity", "content"):
                keys = np.ascontiguousarray(records[part][written])
                heads.append(keys.view(_HEAD)[:: keys.itemsize // _HEAD.itemsize])
                shards.append(np.full(len(written), len(self._read), np.int32))
                numbers.append(written.astype(np.int32))
            self._read.append(folder)
            read += 2 * len(written)
        joined = np.concatenate(heads)
        order = np.argsort(joined, kind="stable")
        self._heads = joined[order]
        self._shards = np.concatenate(shards)[order]
        self._numbers = np.concatenate(numbers)[order]

    def _stored_row(self, folder: Path, number: int, key: bytes) -> CachedRow | None:
        try:
            with open(folder / "rows", "rb") as file:
                file.seek(number * RECORD.itemsize)
                record = records_in(file.read(RECORD.itemsize))[0]
            if key not in (record["identity"].tobytes(), record["content"].tobytes()):
                return None
            stored = self._read_stored(folder, number)
        except (OSError, ValueError, IndexError):
            return None  # deleted in the meantime; the row is made again
        seal = seals_of(record, encoded=self.row_bytes is None)
        if hashlib.sha256(stored).digest() != seal.tobytes():
            return None
        return CachedRow(record["content"].tobytes(), record["pixels"].tobytes(), stored)

    def _read_stored(self, folder: Path, number: int) -> bytes:
        if self.row_bytes is None:
            place, end = _places(folder)[number : number + 2].tolist()
            name, size = "encoded", end - place
        else:
            name, place, size = "pixels", number * self.row_bytes, self.row_bytes
        with open(folder / name, "rb") as file:
            file.seek(place)
            return file.read(size)


@lru_cache(maxsize=64)
def _places(folder: Path) -> np.ndarray:
    """Where each row of a shard of encoded images begins."""
    return places_of(read_sizes(folder))


def _size_of_records(folder: Path) -> tuple[int, str]:
    """Size of the file ``rows`` of a shard, and the name, which orders shards of equal size."""
    try:
        return (folder / "rows").stat().st_size, folder.name
    except OSError:
        return 0, folder.name
