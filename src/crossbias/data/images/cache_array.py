"""CacheArray: the images of a split in the cache, in as many shards as their size needs.

An array of several shards, or of encoded images, has a file of its own: array.json names the
shards with their digests, and has the digest of all pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from torch import Tensor

from crossbias.data.images.cache_entry import (
    FORMAT,
    CacheEntry,
    entry_key,
    read_records,
    rows_digest,
)
from crossbias.data.images.stored_images import PixelShard, StoredImages
from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json, write_json

SHARD_BYTES: Final = 2**31
"""The largest size of a shard; only an image that is larger has a larger one."""


@dataclass(frozen=True)
class CacheArray:
    """The images of a split in the cache."""

    folder: Path
    entries: Sequence[CacheEntry]  # its shards, in order
    shape: tuple[int, ...]  # of one image

    @classmethod
    def of(cls, kind: Path, identities: np.ndarray, shape: tuple[int, ...]) -> "CacheArray":
        """The array of these images in the folder of their kind; it need not exist yet."""
        sizes = np.full(len(identities), int(np.prod(shape)))
        entries = [
            CacheEntry.of(kind, identities[first:end], shape)
            for first, end in shard_limits(sizes, SHARD_BYTES)
        ]
        return cls(kind / entry_key(identities, shape), entries, shape)

    def __len__(self) -> int:
        return sum(map(len, self.entries))

    @property
    def bytes(self) -> int:
        """Size of all shards."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def folders(self) -> list[Path]:
        """The folders of the shards, and the array's own."""
        return list(dict.fromkeys([self.folder, *(entry.folder for entry in self.entries)]))

    def tensor(self) -> Tensor:
        """All images, read-only, from memory-mapped files."""
        if len(self.entries) == 1:
            return self.entries[0].tensor()
        shards = [PixelShard(entry.stored, (len(entry), *self.shape)) for entry in self.entries]
        return StoredImages(shards, self.shape)

    def digest(self) -> str | None:
        """Digest of the pixels if all shards are finished and unchanged since; else None."""
        if len(self.entries) == 1:
            return self.entries[0].digest()
        try:
            about = read_json(self.folder / "array.json")
        except CrossbiasError:
            return None
        if not isinstance(about, dict) or about != about | self._about():
            return None
        digest = about.get("digest")
        return digest if isinstance(digest, str) else None

    def finish(self) -> str:
        """Write what is known of the array, whose shards are finished; return its digest."""
        if len(self.entries) > 1:
            records = (read_records(entry.folder)["pixels"] for entry in self.entries)
            digest = rows_digest((len(self), *self.shape), records)
            write_json(self.folder / "array.json", self._about() | {"digest": digest})
        found = self.digest()
        if found is None:
            raise CrossbiasError(
                f"the cache {self.folder.parent} changes while it is read; start again"
            )
        return found

    def _about(self) -> dict[str, object]:
        shards = {entry.folder.name: entry.digest() for entry in self.entries}
        return {"format": FORMAT, "shape": [len(self), *self.shape], "shards": shards}


def shard_limits(sizes: np.ndarray, most: int) -> list[tuple[int, int]]:
    """First and last + 1 row of each shard of at most so many bytes, and of one row at least.

    >>> shard_limits(np.array([3, 3, 3, 9, 1]), 6)
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ends, limits, first = np.cumsum(sizes), [], 0
    while first < len(sizes):
        before = int(ends[first]) - int(sizes[first])
        end = max(first + 1, int(np.searchsorted(ends, before + most, "right")))
        limits.append((first, end))
        first = end
    return limits
