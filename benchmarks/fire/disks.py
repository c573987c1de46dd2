"""Full disks: a small file system, a limit on the size of files, and writing that fails."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fire.events import Events, no_space
from benchmarks.fire.forks import Command, Outcome
from benchmarks.fire.kills import events_of
from benchmarks.fire.subjects import (
    OWN_IMAGES,
    Arena,
    Skipped,
    completed,
    files,
    is_root,
    write_images,
)
from crossbias.data.images import cache, cache_array
from crossbias.data.memory_maps import CACHE_VARIABLE


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


def of_the_cache(arena: Arena) -> Iterator[str | None]:
    """Let the cache of images meet a full disk; with room again, it must have the same images."""
    if not is_root():
        raise Skipped("small disks need root")
    images, place = arena.folder(), arena.folder()
    write_images(images, 64)
    place.mkdir()
    store = arena.random.choice(["pixels", "bytes"])
    sheet = ("--sheet", images / "sheet.png", "--set", "size=32", "--set", f"store={store}")
    shown = ("data", "show", f"folder:{images}", *OWN_IMAGES, *sheet)
    size = arena.random.randint(8 * 1024, 400 * 1024)
    with _mounted(place, size):
        outcome = Command(shown, lambda: _tight(place / "cache")).wait()
        _mount("remount,size=64m", place)
        ends = [Command(each, lambda: _tight(place / "cache")).wait()
                for each in (shown, ("data", "check", "--cache"))]  # fmt: skip
    whole = Command(shown, lambda: _tight(images / "cache")).wait()
    wrong = [outcome] if not outcome.sane else [each for each in (*ends, whole) if each.code]
    if not wrong and ends[0].out != whole.out:
        wrong = [ends[0]]
    yield f"{store}, {size} bytes: {wrong[0]}" if wrong else None
    place.rmdir()
    shutil.rmtree(images)


def _tight(folder: Path) -> None:
    """Use a cache of small shards, without a look at the room before."""
    os.environ[CACHE_VARIABLE] = str(folder)
    cache_array.SHARD_BYTES = 8 * 3 * 32 * 32  # type: ignore[misc]
    cache._SPARE = -(2**40)


@contextmanager
def _mounted(place: Path, size: int) -> Iterator[None]:
    _mount(f"size={size}", place)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _mount(options: str, place: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)
