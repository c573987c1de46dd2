"""Full disks: a small file system, a limit on the size of files, and writing that fails."""

import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fire.events import Events, no_space
from benchmarks.fire.forks import Outcome
from benchmarks.fire.kills import events_of
from benchmarks.fire.subjects import Arena, completed, files, is_root


def full(arena: Arena) -> Iterator[str | None]:
    """Let a run meet a full disk; with room again, it must end in the same bits."""
    ways = [_failing, _limited, *([_small] if is_root() else [])]
    way, method = arena.random.choice(ways), arena.method()
    arena.whole(method)
    problem = way(arena, method)
    yield problem and f"{method}, {way.__name__.lstrip('_')}: {problem}"


def _then(arena: Arena, method: str, path: Path, outcome: Outcome) -> str | None:
    if not outcome.sane:
        return str(outcome)
    return completed(arena, method, path)


def _failing(arena: Arena, method: str) -> str | None:
    """Writing fails from one event on, or at this event only."""
    path, number = arena.folder(), arena.random.randint(1, events_of(arena, method))
    events = Events(path, number, no_space, stays=arena.random.random() < 0.5)
    problem = _then(arena, method, path, arena.start(method, path, events.install).wait())
    shutil.rmtree(path, ignore_errors=True)
    return problem and f"at event {number}: {problem}"


def _limited(arena: Arena, method: str) -> str | None:
    """The system writes no file further than a limit."""
    path = arena.folder()
    largest = max(file.stat().st_size for file in files(arena.whole(method)))
    limit = arena.random.randint(1, largest)

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    problem = _then(arena, method, path, arena.start(method, path, prepare).wait())
    shutil.rmtree(path, ignore_errors=True)
    return problem and f"{limit} bytes: {problem}"


def _small(arena: Arena, method: str) -> str | None:
    """A file system has too little room."""
    place = arena.folder()
    place.mkdir()
    whole = sum(file.stat().st_size for file in files(arena.whole(method)))
    size = arena.random.randint(8 * 1024, whole + 256 * 1024)
    with _mounted(place, size):
        outcome = arena.start(method, place / "run").wait()
        _mount("remount,size=64m", place)
        problem = _then(arena, method, place / "run", outcome)
    place.rmdir()
    return problem and f"{size} bytes: {problem}"


@contextmanager
def _mounted(place: Path, size: int) -> Iterator[None]:
    _mount(f"size={size}", place)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _mount(options: str, place: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)
