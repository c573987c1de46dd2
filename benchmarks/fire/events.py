"""File events of a run, counted in its own process, and what to do at one of them."""

import errno
import mmap
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

Act = Callable[[str, int | None], None]
"""Called with the name of the event, and for an ``fsync`` with the file's descriptor."""


class Events:
    """Counts the changes of files in a folder: openings to write, renamings, fsync and so on.

    Args:
        folder: Where events count.
        number: The event to act at, counted from 1; at none if not given.
        act: What to do before that event.
        stays: Whether to act at all later events, too.
    """

    def __init__(
        self, folder: Path, number: int = 0, act: Act | None = None, *, stays: bool = False
    ) -> None:
        self.folder, self.number, self.act, self.stays = str(folder), number, act, stays
        self._count = mmap.mmap(-1, 8)  # shared with the fork
        self._fsync = os.fsync

    @property
    def count(self) -> int:
        """How many events there were so far."""
        return int.from_bytes(self._count[:8], "little")

    def install(self) -> None:
        """Count from now on, in this process, until it ends."""
        sys.addaudithook(self._heard)
        os.fsync = self._synced

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        written = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
        if (written or event in _CHANGES) and str(arguments[0]).startswith(self.folder):
            self._happens(event, None)

    def _synced(self, descriptor: int) -> None:
        self._happens("fsync", descriptor)
        self._fsync(descriptor)

    def _happens(self, event: str, descriptor: int | None) -> None:
        count = self.count + 1
        self._count[:8] = count.to_bytes(8, "little")
        if self.act and (count == self.number or (self.stays and count > self.number > 0)):
            self.act(event, descriptor)


def kill(event: str, descriptor: int | None) -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def tear(event: str, descriptor: int | None) -> None:
    """End this process with half of a new file on the disk."""
    if descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        # The log is only added to, so that half of its last line is on the disk.
        kept = _before_last_line(name) if name.endswith(".jsonl") else 0
        os.truncate(name, (kept + os.path.getsize(name)) // 2)
    kill(event, descriptor)


def _before_last_line(name: str) -> int:
    return Path(name).read_bytes().rstrip(b"\n").rfind(b"\n") + 1


def no_space(event: str, descriptor: int | None) -> None:
    """Fail as on a full disk; what needs no space works."""
    if event in ("open", "os.mkdir", "fsync"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
