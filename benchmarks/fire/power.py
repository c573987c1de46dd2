"""Power cuts: a file system of its own is shut down without writing back what it holds."""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fire.subjects import Arena, Skipped, completed, is_root

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NOTHING_FLUSHED = 2  # its flag: not even the journal
_SIZE = 48 * 2**20


def cuts(arena: Arena) -> Iterator[str | None]:
    """Cut the power of a run on a loop device, and let it go on after the journal is replayed."""
    if not is_root() or shutil.which("mkfs.ext4") is None:
        raise Skipped("needs root and mkfs.ext4")
    image, place = arena.folder(), arena.folder()
    method, path = arena.method(), place / "run"
    arena.whole(method)
    _format(image)
    place.mkdir()
    with _mounted(image, place):
        command = arena.start(method, path)
        time.sleep(arena.random.uniform(0.1, 1.3) * arena.seconds[method])
        _cut(place)
        command.send(signal.SIGKILL)
        command.wait()
    with _mounted(image, place):
        problem = completed(arena, method, path)
    yield problem and f"{method}: {problem}"
    image.unlink()
    place.rmdir()


def _format(image: Path) -> None:
    with image.open("wb") as file:
        file.truncate(_SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)


@contextmanager
def _mounted(image: Path, place: Path) -> Iterator[None]:
    mount = ["mount", "-o", "loop", str(image), str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        raise Skipped("no loop device can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True, capture_output=True)


def _cut(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NOTHING_FLUSHED))
    finally:
        os.close(descriptor)
