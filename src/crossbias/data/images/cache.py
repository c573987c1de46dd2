"""The cache of decoded images: each is decoded once into an array that is memory-mapped."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

from crossbias.data.images.cache_entry import CacheEntry, DecodedRow, KnownRows
from crossbias.data.images.encoded_images import EncodedImage, UnusableImages, unreadable
from crossbias.data.images.private_folder import check_private, make_private
from crossbias.data.memory_maps import CACHE_VARIABLE, cache_folder
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress

Decode = Callable[[BinaryIO], bytes]
"""Returns the bytes of a row; the message of its ``CrossbiasError`` follows the item's name."""

_BLOCK = 64  # images decoded between two reports of progress


def cached(
    items: Sequence[EncodedImage],
    decode: Decode,
    *,
    kind: str,
    shape: tuple[int, ...],
    cache: Path | None,
    progress: Progress,
) -> tuple[Tensor, str]:
    """The decoded items as one array from the cache; missing ones are decoded first.

    The array is (n, *shape) uint8, memory-mapped and read-only; it comes with its digest. ``kind``
    names what ``decode`` does: only arrays of the same kind share rows.
    """
    if not items:
        raise CrossbiasError("there are no images to read; name at least one")
    entry = CacheEntry.of(cache_folder(cache) / kind, [item.identity for item in items], shape)
    kind_folder = entry.folder.parent
    check_private(kind_folder)
    check_private(entry.folder)
    digest = entry.digest()
    if digest is None:
        try:
            make_private(kind_folder)
            make_private(entry.folder)
            with _locked(entry.folder, progress):
                # Another process may have finished the array while this one waited.
                digest = entry.digest() or _build(entry, items, decode, progress)
        except OSError as error:
            raise CrossbiasError(
                f"cannot write the cache {entry.folder}: {error.strerror or error}; images decoded "
                f"so far are kept; free some space, or name another folder: {CACHE_VARIABLE}"
            ) from error
    return entry.tensor(), digest


@contextmanager
def _locked(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of a folder; the system releases it however the process ends."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress.note(f"waiting for the process that is writing {folder}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(
    entry: CacheEntry, items: Sequence[EncodedImage], decode: Decode, progress: Progress
) -> str:
    """Decode the missing rows and finish the array; an error names all unusable images."""
    missing = entry.missing()
    entry.check_room(len(missing))
    progress.note(
        f"cache {entry.folder}: {len(missing):,} of {len(items):,} images to decode; "
        f"{len(items) * entry.row_bytes / 1e9:.2f} GB in all"
    )
    known = KnownRows(entry.folder.parent, entry.row_bytes)

    def make(row: int) -> DecodedRow | CrossbiasError:
        try:
            return known.find(entry.identities[row]) or _decoded(items[row], decode, known)
        except CrossbiasError as error:
            return error

    try:
        reasons = _fill(entry, missing, make, progress)
    finally:
        progress.close()  # an interruption must not leave a progress line behind
    if reasons:
        raise UnusableImages(reasons, [item.name for item in items])
    return entry.finish()


def _fill(
    entry: CacheEntry,
    missing: list[int],
    make: Callable[[int], DecodedRow | CrossbiasError],
    progress: Progress,
) -> dict[int, str]:
    """Write the missing rows; return what is wrong with those that cannot be decoded."""
    reasons, total = {}, len(entry.identities)
    with ThreadPoolExecutor(_processors()) as pool, entry.writer() as write:
        for start in range(0, len(missing), _BLOCK):
            rows = missing[start : start + _BLOCK]
            for row, made in zip(rows, pool.map(make, rows), strict=True):
                if isinstance(made, DecodedRow):
                    write(row, made)
                else:
                    reasons[row] = str(made)
            progress.prepare("images", total - len(missing) + start + len(rows), total)
    return reasons


def _decoded(item: EncodedImage, decode: Decode, known: KnownRows) -> DecodedRow:
    """The row of an item: copied if the same content is already known, else decoded."""
    try:
        with item.open() as file:
            content = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]
            found = known.find(content)
            if found is None:
                file.seek(0)
                found = DecodedRow(content, decode(file))
            return found
    except OSError as error:
        raise CrossbiasError(unreadable(error)) from error


def _processors() -> int:
    """Number of processors this process may use; decoding releases the interpreter's lock."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
