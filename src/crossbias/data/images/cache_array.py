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

from crossbias.data.dataset import tensor_digest
from crossbias.data.images.cache_entry import (
    FORMAT,
    CacheEntry,
    entry_key,
    read_records,
    rows_digest,
)
from crossbias.data.images.encoded_shard import Decode, EncodedShard
from crossbias.data.images.stored_images import PixelShard, StoredImages, StoredShard
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
    decode: Decode | None = None  # decodes images whenever they are read; None: they are decoded

    @classmethod
    def of(
        cls,
        kind: Path,
        identities: np.ndarray,
        shape: tuple[int, ...],
        *,
        encoded: tuple[np.ndarray, Decode] | None = None,
    ) -> "CacheArray":
        """The array of these images in the folder of their kind; it need not exist yet.

        ``encoded`` has the size of each image and what decodes it, where images stay encoded.
        """
        sizes = encoded[0] if encoded else np.full(len(identities), int(np.prod(shape)))
        entries = [
            CacheEntry.of(kind, identities[at], shape, sizes[at] if encoded else None)
            for at in shard_slices(sizes, SHARD_BYTES)
        ]
        decode = encoded[1] if encoded else None
        return cls(kind / entry_key(identities, shape), entries, shape, decode)

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
        """All images, read-only; those that are decoded are in memory-mapped files."""
        if self._is_one_map:
            return self.entries[0].tensor()
        shards: list[StoredShard] = []
        for entry in self.entries:
            shape = (len(entry), *self.shape)
            if self.decode is None:
                shards.append(PixelShard(entry.stored, shape))
            else:
                shards.append(EncodedShard(entry.folder, shape, self.decode))
        return StoredImages(shards, self.shape)

    def digest(self) -> str | None:
        """Digest of the pixels if all shards are finished and unchanged since; else None."""
        if self._is_one_map:
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
        if not self._is_one_map:
            write_json(self.folder / "array.json", self._about() | {"digest": self._computed()})
        found = self.digest()
        if found is None:
            raise CrossbiasError(
                f"the cache {self.folder.parent} changes while it is read; start again"
            )
        return found

    @property
    def _is_one_map(self) -> bool:
        """Whether the array is one file of pixels, with nothing else to know about it."""
        return len(self.entries) == 1 and self.decode is None

    def _computed(self) -> str:
        """Digest of the pixels, the same however they are stored."""
        if len(self) * int(np.prod(self.shape)) <= SHARD_BYTES:
            return tensor_digest(self.tensor())
        records = (read_records(entry.folder)["pixels"] for entry in self.entries)
        return rows_digest((len(self), *self.shape), records)

    def _about(self) -> dict[str, object]:
        shards = {entry.folder.name: entry.digest() for entry in self.entries}
        return {"format": FORMAT, "shape": [len(self), *self.shape], "shards": shards}


def shard_slices(sizes: np.ndarray, most: int) -> list[slice]:
    """The rows of each shard of at most so many bytes, and of one row at least.

    >>> [(at.start, at.stop) for at in shard_slices(np.array([3, 3, 3, 9, 1]), 6)]
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ends, slices, first = np.cumsum(sizes), [], 0
    while first < len(sizes):
        before = int(ends[first]) - int(sizes[first])
        end = max(first + 1, int(np.searchsorted(ends, before + most, "right")))
        slices.append(slice(first, end))
        first = end
    return slices
