"""Races: two processes that want to write one run, and writers that are suspended."""

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fire.forks import Command
from benchmarks.fire.subjects import Arena, completed, resume, start

_KILLED = -signal.SIGKILL


def between_processes(arena: Arena) -> Iterator[str | None]:
    """Two or three processes at once: one at most writes, and the result has the same bits."""
    race = arena.random.choice([_starts, _resumes, _start_and_resume, _suspended, _killed])
    method, path = arena.method(), arena.folder()
    arena.whole(method)
    commands = race(arena, method, path)
    outcomes = [command.wait() for command in commands]
    wild = [str(each) for each in outcomes if not each.sane and each.code != _KILLED]
    problem = wild[0] if wild else completed(arena, method, path)
    yield problem and f"{method}, {race.__name__.strip('_')}: {problem}"
    shutil.rmtree(path, ignore_errors=True)


def _pause(arena: Arena, method: str) -> None:
    """Wait for a random part of the time that a run takes, often for none."""
    time.sleep(max(0.0, arena.random.uniform(-0.3, 1.0)) * arena.seconds[method])


def _starts(arena: Arena, method: str, path: Path) -> list[Command]:
    return [start(method, path) for _ in range(arena.random.randint(2, 3))]


def _resumes(arena: Arena, method: str, path: Path) -> list[Command]:
    shutil.copytree(arena.half(method), path)
    return [resume(path) for _ in range(arena.random.randint(2, 3))]


def _start_and_resume(arena: Arena, method: str, path: Path) -> list[Command]:
    first = start(method, path)
    _pause(arena, method)
    return [first, resume(path) if arena.random.random() < 0.5 else start(method, path)]


def _suspended(arena: Arena, method: str, path: Path) -> list[Command]:
    """The first writer sleeps while the second one tries."""
    first = start(method, path)
    _pause(arena, method)
    first.send(signal.SIGSTOP)
    second = resume(path)
    time.sleep(arena.random.uniform(0.0, 1.0) * arena.seconds[method])
    first.send(signal.SIGCONT)
    return [first, second]


def _killed(arena: Arena, method: str, path: Path) -> list[Command]:
    """The first writer is killed while the second one begins."""
    first = start(method, path)
    _pause(arena, method)
    second = resume(path)
    time.sleep(arena.random.uniform(0.0, 0.2))
    first.send(signal.SIGKILL)
    return [first, second]
