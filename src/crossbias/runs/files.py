"""Files that are either whole or absent: every result of a run is written through here."""

import hashlib
import json
import math
import os
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
from torch import Tensor

from crossbias.errors import CrossbiasError


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new, whole.

    Where it cannot be written, on a full disk for example, an earlier file is as it was, and
    nothing is left beside it.
    """
    # In the same folder, because a rename is atomic only within one file system. The name does
    # not grow with the path's, which may already be as long as the file system allows.
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        cause = _system_error(error)
        if cause is None:
            raise
        raise CrossbiasError(
            f"cannot write {path}: {cause.strerror or cause}; "
            f"the earlier file, if there was one, is unchanged"
        ) from error
    _flush_folder(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill, which appears under its name with everything in it, or not at all.

    Raises:
        CrossbiasError: There is something at the path already, or it cannot be written.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise CrossbiasError(f"{path} exists and is not an empty folder; choose another one")
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        _flush_folder(temporary)
        if path.exists():
            path.rmdir()
        os.replace(temporary, path)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        cause = _system_error(error)
        if cause is None or isinstance(error, CrossbiasError):
            raise
        raise CrossbiasError(f"cannot write {path}: {cause.strerror or cause}") from error
    _flush_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, keys in the order given; ValueError for NaN and infinity."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> Any:
    """The value in a JSON file, whose numbers are finite."""
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except FileNotFoundError:
        raise CrossbiasError(f"{path} does not exist") from None
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CrossbiasError(
            f"{path} is damaged, it does not hold JSON ({error}); write it again or delete it"
        ) from error


def _finite(text: str) -> float:
    """A number of a file; NaN and Infinity are not JSON, but Python reads them, and 1e999 too."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def checksum(value: dict[str, Any]) -> int:
    """CRC-32 of a value as JSON, for entries of files that grow and have no hash until the end."""
    return zlib.crc32(json.dumps(value).encode())


def hash_of(path: Path) -> str:
    """SHA-256 of a file, which is read in parts."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error


def _system_error(error: BaseException) -> OSError | None:
    """The operating system's error behind a failure; torch.save reports a full disk in its own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can: Windows opens no folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_Content = TypeVar("_Content")

_UNPACKED = 2**30  # bytes that any archive may unpack to
_EXPANSION = 100  # and so many times its own size; labels that are all equal shrink most

_UNREADABLE = (
    *(OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What a damaged or foreign ``.npz`` file makes zipfile, zlib, numpy and torch raise."""


def save_arrays(path: Path, tensors: Mapping[str, Tensor | None]) -> None:
    """Write tensors by name, whole or not at all; those that are None are left out."""
    arrays: dict[str, Any] = {name: t.numpy() for name, t in tensors.items() if t is not None}
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))


def load_arrays(path: Path, build: Callable[[dict[str, Tensor]], _Content]) -> _Content:
    """What ``build`` makes of the tensors that ``save_arrays`` wrote; else the file is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return build({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    except FileNotFoundError:
        raise CrossbiasError(f"{path} does not exist") from None
    except _UNREADABLE as error:
        raise CrossbiasError(f"{path} is damaged: {error}; train the run again") from error


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """Refuse arrays that are larger than the file can hold, before memory is used for them."""
    _check_expansion(archive)
    for member in archive.infolist():
        with archive.open(member) as file:
            np.lib.format.read_magic(file)
            shape, _, kind = np.lib.format.read_array_header_1_0(file)
            declared, there = math.prod(shape) * kind.itemsize, member.file_size - file.tell()
        if declared != there:
            raise ValueError(f"{member.filename} has {there:,} bytes, but the shape {shape}")


def _check_expansion(archive: zipfile.ZipFile) -> None:
    """Refuse an archive that unpacks to far more than compressed numbers would."""
    packed = sum(member.compress_size for member in archive.infolist())
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > _UNPACKED + _EXPANSION * packed:
        raise ValueError(f"{packed:,} bytes would unpack to {unpacked:,}")


def load_torch(path: Path) -> Any:
    """What ``torch.save`` wrote, without running code from it and with its checksums verified."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_expansion(archive)
            if archive.testzip() is not None:  # torch.load itself does not look
                raise zipfile.BadZipFile("a checksum does not match")
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and torch each have errors of their own
        raise CrossbiasError(
            f"{path} is damaged ({type(error).__name__}); delete it and resume, which trains this "
            f"stage again from its start, or restore the file from a copy"
        ) from error
