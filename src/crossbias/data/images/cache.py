"""Images that are decoded once, into arrays in a folder, and then mapped into memory."""

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
from crossbias.data.memory_maps import CACHE_VARIABLE, cache_folder
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress

Decode = Callable[[BinaryIO], bytes]
"""Gives the bytes of a row; raises ``CrossbiasError`` with what comes after the item's name."""

_BLOCK = 64  # images decoded between two looks at the progress


def cached(
    items: Sequence[EncodedImage],
    decode: Decode,
    *,
    kind: str,
    shape: tuple[int, ...],
    cache: Path | None,
    progress: Progress,
) -> tuple[Tensor, str]:
    """The decoded items as one array, from the cache; what is not there yet is decoded into it.

    Args:
        items: What to decode, at least one.
        decode: How.
        kind: Name of what ``decode`` does; only arrays of the same kind share rows.
        shape: Of one row.
        cache: See ``cache_folder``.
        progress: Hears how far the decoding is.

    Returns:
        ``(n, *shape)`` uint8, mapped into memory and only to be read, and its digest.
    """
    if not items:
        raise CrossbiasError("there are no images to read; name at least one")
    entry = CacheEntry.of(cache_folder(cache) / kind, [item.identity for item in items], shape)
    digest = entry.digest()
    if digest is None:
        try:
            with _locked(entry.folder, progress):
                # Another process may have finished it while this one waited.
                digest = entry.digest() or _build(entry, items, decode, progress)
        except OSError as error:
            raise CrossbiasError(
                f"cannot write the cache {entry.folder}: {error.strerror or error}; what is "
                f"decoded already is kept; make room, or name another folder: {CACHE_VARIABLE}"
            ) from error
    return entry.tensor(), digest


@contextmanager
def _locked(folder: Path, progress: Progress) -> Iterator[None]:
    """Alone in a folder; the system ends the lock with the process, however that ends."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
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
    """Decode what is missing, report what cannot be, and finish the array."""
    missing = entry.missing()
    entry.check_room(len(missing))
    progress.note(
        f"cache {entry.folder}: {len(missing):,} of {len(items):,} images are missing; "
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
        progress.close()  # an interruption must not leave a live line behind
    if reasons:
        raise UnusableImages(reasons, [item.name for item in items])
    return entry.finish()


def _fill(
    entry: CacheEntry,
    missing: list[int],
    make: Callable[[int], DecodedRow | CrossbiasError],
    progress: Progress,
) -> dict[int, str]:
    """Write the missing rows; what is wrong with those that cannot be made."""
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
    """An item's row: that of the same content under another name, or decoded."""
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
    """Processors this process may use; decoding releases the interpreter's lock."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
