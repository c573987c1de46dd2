"""The cache of images: each is decoded once, into shards that are memory-mapped.

Any number of processes, on one host or on several that share the folder, build an array together:
each takes shards that nobody has.
"""

import hashlib
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from crossbias.data.images.cache_array import CacheArray
from crossbias.data.images.cache_entry import CachedRow, CacheEntry, hashed
from crossbias.data.images.encoded_images import EncodedImage, UnusableImages, unreadable
from crossbias.data.images.encoded_shard import Decode, processors
from crossbias.data.images.known_rows import KnownRows
from crossbias.data.images.private_folder import check_private, make_private
from crossbias.data.memory_maps import CACHE_VARIABLE, cache_folder
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress

Store = Literal["pixels", "bytes"]
"""What the cache keeps of an image: its pixels, or its file, which is decoded when it is read."""

_PART = 16  # images that a thread decodes before it hands them over: small ones take less than that
_PAUSE = 0.1  # seconds between two looks at shards that other processes write
_SPARE = 64 * 2**20  # bytes to leave free on the disk


def cached(
    items: Sequence[EncodedImage],
    decode: Decode,
    *,
    kind: str,
    shape: tuple[int, ...],
    store: Store,
    cache: Path | None,
    progress: Progress,
) -> tuple[Tensor, str]:
    """The decoded items as one array from the cache; missing ones are decoded first.

    The array is (n, *shape) uint8 and read-only, from memory-mapped files or, with
    ``store="bytes"``, decoded whenever rows are taken. It comes with its digest, which is the same
    for both. ``kind`` names what ``decode`` does: only arrays of the same kind share rows.
    """
    if not items:
        raise CrossbiasError("there are no images to read; name at least one")
    kind_folder = cache_folder(cache) / (kind if store == "pixels" else f"{kind}-{store}")
    encoded = None
    if store == "bytes":
        encoded = (np.array([item.size for item in items]), decode)
    identities = hashed(item.identity for item in items)
    array = CacheArray.of(kind_folder, identities, shape, encoded=encoded)
    for folder in (kind_folder, *array.folders):
        check_private(folder)
    digest = array.digest()
    if digest is None:
        try:
            for folder in (kind_folder, *array.folders):
                make_private(folder)
            _Building(array, items, decode, progress).run()
            with _claimed(array.folder, wait=True):
                digest = array.digest() or array.finish()
        except OSError as error:
            raise CrossbiasError(
                f"cannot write the cache {array.folder}: {error.strerror or error}; images decoded "
                f"so far are kept; free some space, or name another folder: {CACHE_VARIABLE}"
            ) from error
    return array.tensor(), digest


class _Building:
    """This process's part in building an array."""

    def __init__(
        self, array: CacheArray, items: Sequence[EncodedImage], decode: Decode, progress: Progress
    ) -> None:
        self.array, self.items, self.decode, self.progress = array, items, decode, progress
        self.reasons: dict[int, str] = {}  # what is wrong with images that cannot be decoded
        self.done = 0  # images that are known to be in the cache
        row_bytes = int(np.prod(array.shape)) if array.decode is None else None
        self.known = KnownRows(array.folder.parent, row_bytes)

    def run(self) -> None:
        """Finish all shards; an error names all unusable images."""
        left = {}  # shards that are not finished, by their first row
        first = 0
        for entry in self.array.entries:
            left[first] = entry
            first += len(entry)
        left = {first: entry for first, entry in left.items() if entry.digest() is None}
        self._announce(list(left.values()))
        try:
            self._take(left)
        finally:
            self.progress.close()  # an interruption must not leave a progress line behind
        if self.reasons:
            raise UnusableImages(self.reasons, [item.name for item in self.items])

    def _announce(self, left: Sequence[CacheEntry]) -> None:
        """Check, before anything is written, that the disk has room, and say what will be done."""
        unwritten = [(entry, entry.unwritten()) for entry in left]
        rows = sum(len(numbers) for _, numbers in unwritten)
        needed = sum(entry.row_bytes(numbers) for entry, numbers in unwritten)
        free, total = shutil.disk_usage(self.array.folder).free, len(self.array)
        if needed + _SPARE > free:
            raise CrossbiasError(
                f"{rows:,} images need {needed / 1e9:.1f} GB, but the cache {self.array.folder} "
                f"has {free / 1e9:.1f} GB free; name a folder on a larger disk with "
                f"{CACHE_VARIABLE}, choose smaller images, or free some space"
            )
        shards = len(self.array.entries)
        self.progress.note(
            f"cache {self.array.folder}: {rows:,} of {total:,} images to decode; "
            f"{self.array.bytes / 1e9:.2f} GB in {'all' if shards == 1 else f'{shards:,} shards'}"
        )
        self.done = total - sum(map(len, left))

    def _take(self, left: dict[int, CacheEntry]) -> None:
        """Build the shards that nobody has, and wait for those that other processes build.

        A process that dies loses its shard, and another one goes on with it.
        """
        waited = False
        while left:
            before = len(left)
            for first, entry in list(left.items()):
                with _claimed(entry.folder) as mine:
                    if not mine:
                        continue
                    if entry.digest() is None:  # else another process has finished it
                        self._build(first, entry)
                    else:
                        self.done += len(entry)
                    del left[first]
            if left and len(left) == before:
                if not waited:
                    folder = next(iter(left.values())).folder
                    self.progress.note(f"waiting for the process that is writing {folder}")
                waited = True
                time.sleep(_PAUSE)

    def _build(self, first: int, entry: CacheEntry) -> None:
        """Decode the missing rows of a shard and finish it if all can be decoded."""
        missing = entry.missing()
        self.done += len(entry) - len(missing)
        bad: dict[int, str] = {}

        def make(number: int) -> CachedRow | CrossbiasError:
            try:
                known = self.known.find(entry.identities[number].tobytes())
                made = known or self._decoded(self.items[first + number])
                entry.check_size(number, made)
                return made
            except CrossbiasError as error:
                return error

        def make_all(numbers: Sequence[int]) -> list[CachedRow | CrossbiasError]:
            return list(map(make, numbers))

        threads = processors()
        block = 2 * threads * _PART  # images between two reports of progress
        with ThreadPoolExecutor(threads) as pool, entry.writer() as write:
            for start in range(0, len(missing), block):
                numbers = missing[start : start + block]
                parts = [numbers[at : at + _PART] for at in range(0, len(numbers), _PART)]
                rows = chain.from_iterable(pool.map(make_all, parts))
                for number, made in zip(numbers, rows, strict=True):
                    if isinstance(made, CachedRow):
                        write(number, made)
                    else:
                        bad[first + number] = str(made)
                self.done += len(numbers)
                self.progress.prepare("images", self.done, len(self.array))
        self.reasons |= bad
        if not bad:
            entry.finish()

    def _decoded(self, item: EncodedImage) -> CachedRow:
        """The row of an item: copied if the same content is already known, else decoded."""
        try:
            with item.open() as file:
                content = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]
                if (found := self.known.find(content)) is not None:
                    return found
                file.seek(0)
                pixels = self.decode(file)
                file.seek(0)
                stored = pixels if self.array.decode is None else file.read()
                return CachedRow(content, hashlib.sha256(pixels).digest(), stored)
        except OSError as error:
            raise CrossbiasError(unreadable(error)) from error


@contextmanager
def _claimed(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold the lock of a folder, at once if nobody does or not at all, unless ``wait`` is true.

    The system releases it however a process ends.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        yield False
        return
    except NotImplementedError as error:
        raise CrossbiasError(
            f"the file system of the cache {folder} has no locks, so processes cannot share it; "
            f"name a folder on another one: {CACHE_VARIABLE}"
        ) from error
    try:
        yield True
    finally:
        lock.release()
