"""Races: processes that want to write one run, suspended writers, readers, a shared cache."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fire.damages import READERS
from benchmarks.fire.forks import Command
from benchmarks.fire.subjects import OWN_IMAGES, Arena, completed, resume, write_images
from crossbias.data.images import cache_array
from crossbias.data.memory_maps import CACHE_VARIABLE
from crossbias.runs.writer import LOCK_FILES

_KILLED = -signal.SIGKILL


def between_processes(arena: Arena) -> Iterator[str | None]:
    """Several processes at once: one at most writes, and the result has the same bits."""
    races = [_starts, _resumes, _start_and_resume, _suspended, _killed, _forgotten, _with_reader]
    race = arena.random.choice(races)
    method, path = arena.method(), arena.folder()
    arena.whole(method)
    commands = race(arena, method, path)
    outcomes = [command.wait() for command in commands]
    wild = [str(each) for each in outcomes if not each.sane and each.code != _KILLED]
    problem = wild[0] if wild else completed(arena, method, path)
    yield problem and f"{method}, {race.__name__.strip('_')}: {problem}"
    shutil.rmtree(path, ignore_errors=True)


def for_the_cache(arena: Arena) -> Iterator[str | None]:
    """Three processes build the same shards: each gets the images, though one may be killed."""
    path, cache = arena.folder(), arena.folder()
    write_images(path, 64)
    store, size = arena.random.choice(["pixels", "bytes"]), arena.random.choice([1000, 2**31])
    sheet = ("--sheet", path / "sheet.png", "--set", "size=8", "--set", f"store={store}")
    shown = ("data", "show", f"folder:{path}", *OWN_IMAGES, *sheet)

    def prepare() -> None:
        os.environ[CACHE_VARIABLE] = str(cache)
        cache_array.SHARD_BYTES = size  # type: ignore[misc]

    commands = [Command(shown, prepare) for _ in range(3)]
    time.sleep(arena.random.uniform(0.0, 0.1))
    commands[0].send(signal.SIGKILL)
    outcomes = [command.wait() for command in commands]
    checked = Command(("data", "check", "--cache"), prepare).wait()
    printed = {outcome.out for outcome in outcomes[1:]}
    failed = [each for each in (*outcomes[1:], checked) if each.code]
    yield str(failed[0]) if failed else "other images" if len(printed) > 1 else None
    shutil.rmtree(path)
    shutil.rmtree(cache)


def _pause(arena: Arena, method: str) -> None:
    """Wait for a random part of the time that a run takes, often for none."""
    time.sleep(max(0.0, arena.random.uniform(-0.3, 1.0)) * arena.seconds[method])


def _starts(arena: Arena, method: str, path: Path) -> list[Command]:
    return [arena.start(method, path) for _ in range(arena.random.randint(2, 3))]


def _resumes(arena: Arena, method: str, path: Path) -> list[Command]:
    shutil.copytree(arena.half(method), path)
    return [resume(path) for _ in range(arena.random.randint(2, 3))]


def _start_and_resume(arena: Arena, method: str, path: Path) -> list[Command]:
    first = arena.start(method, path)
    _pause(arena, method)
    return [first, resume(path) if arena.random.random() < 0.5 else arena.start(method, path)]


def _suspended(arena: Arena, method: str, path: Path) -> list[Command]:
    """The first writer sleeps while the second one tries."""
    first = arena.start(method, path)
    _pause(arena, method)
    first.send(signal.SIGSTOP)
    second = resume(path)
    time.sleep(arena.random.uniform(0.0, 1.0) * arena.seconds[method])
    first.send(signal.SIGCONT)
    return [first, second]


def _forgotten(arena: Arena, method: str, path: Path) -> list[Command]:
    """The first writer sleeps, its lock is lost, and it wakes while or after the second writes."""
    first = arena.start(method, path)
    _pause(arena, method)
    first.send(signal.SIGSTOP)
    for name in LOCK_FILES:
        (path / name).unlink(missing_ok=True)
    second = resume(path)
    time.sleep(arena.random.uniform(0.0, 2.0) * arena.seconds[method])
    first.send(signal.SIGCONT)
    return [first, second]


def _killed(arena: Arena, method: str, path: Path) -> list[Command]:
    """The first writer is killed while the second one begins."""
    first = arena.start(method, path)
    _pause(arena, method)
    second = resume(path)
    time.sleep(arena.random.uniform(0.0, 0.2))
    first.send(signal.SIGKILL)
    return [first, second]


def _with_reader(arena: Arena, method: str, path: Path) -> list[Command]:
    """Somebody reads a run that is being written, early or when it ends."""
    writer = arena.start(method, path)
    time.sleep(arena.random.uniform(0.5, 1.2) * arena.seconds[method])
    name, *options = arena.random.choice(READERS)
    written = ("-o", arena.folder()) if name == "report" else ()
    return [writer, Command((name, path, *options, *written))]
