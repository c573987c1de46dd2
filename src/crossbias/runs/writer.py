"""One writer at a time: the lock on a run folder, which a dead process does not keep.

The lock is the operating system's, on the file ``lock``. It ends with its process. ``writer.json``
says who holds it, for messages, and for network file systems that forget locks: a process that
was suspended and finds another name there has lost the folder and must not write to it.
"""

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json, write_json

_NAME = "writer.json"
LOCK_FILES = ("lock", _NAME)

_PATIENCE = 15.0  # seconds that children of a killed process may hold its lock


class Writer:
    """This process as the only writer of a folder, from ``acquire`` to ``release``."""

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock

        self.folder = folder
        self.name = folder / _NAME
        self.token = secrets.token_hex(8)
        self._lock = FileLock(folder / "lock", thread_local=False)

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            CrossbiasError: Another process has it, or the folder cannot be written.
        """
        from filelock import Timeout

        try:
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                if _is_alive(self._holder()):
                    raise
                self._lock.acquire(timeout=_PATIENCE)
        except Timeout:
            raise self._refusal(self._holder()) from None
        except OSError as error:
            raise CrossbiasError(
                f"cannot write to {self.folder}: {error.strerror or error}"
            ) from error
        own = {"process": os.getpid(), "host": socket.gethostname(), "token": self.token}
        write_json(self.name, own)

    def check(self) -> None:
        """Refuse to go on where another process has taken the folder in the meantime."""
        holder = self._holder()
        if holder.get("token") != self.token:
            raise self._refusal(holder)

    def release(self) -> None:
        """Let others write. The files of the lock go, unless another process has taken over."""
        if not self._lock.is_locked:
            return
        if self._holder().get("token") == self.token:
            for name in LOCK_FILES:
                with suppress(OSError):
                    (self.folder / name).unlink()
        self._lock.release()

    def _holder(self) -> dict[str, Any]:
        return _holder_of(self.folder)

    def _refusal(self, holder: dict[str, Any]) -> CrossbiasError:
        process, host = holder.get("process"), holder.get("host")
        who = f"process {process} on {host}" if process and host else "another process"
        return CrossbiasError(
            f"{self.folder} is being written by {who}; wait until it ends, or end it first"
        )


def is_written(folder: Path) -> bool:
    """Whether a process writes a folder; nobody knows about those of other hosts."""
    holder = _holder_of(folder)
    return bool(holder) and _is_alive(holder)


def _holder_of(folder: Path) -> dict[str, Any]:
    """Process, host and token of the one who took the lock last; empty if not known."""
    try:
        found = read_json(folder / _NAME)
    except CrossbiasError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_alive(holder: dict[str, Any]) -> bool:
    """Whether the holder of a lock may be alive; nobody knows about those of other hosts."""
    process = holder.get("process")
    if holder.get("host") != socket.gethostname() or not isinstance(process, int) or process <= 0:
        return True
    if os.name == "nt":  # where os.kill ends a process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
