"""Files that are either whole or absent: every result of a run is written through here."""

import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from crossbias.errors import CrossbiasError


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new, whole.

    Args:
        path: The file to write. Its folder must exist.
        write: Writes the content to the open binary file it is given.

    Raises:
        CrossbiasError: The file cannot be written, on a full disk for example. An earlier file
            is as it was, and nothing is left beside it.
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


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, keys in the order given; NaN and infinity are refused.

    Raises:
        CrossbiasError: The file cannot be written.
        ValueError: The value holds NaN or infinity, which JSON does not have.
    """
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        CrossbiasError: The file is missing, unreadable, or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CrossbiasError(f"{path} does not exist") from None
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CrossbiasError(
            f"{path} is damaged, it does not hold JSON ({error}); write it again or delete it"
        ) from error


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
