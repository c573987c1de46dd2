"""Kills: at random moments, and at every single change of a file."""

import shutil
import signal
import time
from collections.abc import Iterator

from benchmarks.fire.events import Events, kill, tear
from benchmarks.fire.subjects import METHODS, Arena, completed, go_on, start


def at_random_moments(arena: Arena) -> Iterator[str | None]:
    """Kill a run up to three times, then let it end: it must end in the same bits."""
    method, path = arena.method(), arena.folder()
    arena.whole(method)
    for _ in range(arena.random.randint(1, 3)):
        if (path / "done").exists():
            break
        command = go_on(method, path)
        time.sleep(arena.random.uniform(0.05, 1.1) * arena.seconds[method])
        command.send(signal.SIGKILL)
        outcome = command.wait()
        if outcome.code not in (0, -signal.SIGKILL):
            yield f"{method} does not go on after a kill: {outcome}"
            return
        yield None if outcome.code else completed(arena, method, path)
    yield completed(arena, method, path)
    shutil.rmtree(path, ignore_errors=True)


def at_every_event(arena: Arena) -> Iterator[str | None]:
    """Kill a run at one change of a file after the other, all methods in turn."""
    for method in METHODS:
        for number in range(1 + arena.lane, events_of(arena, method) + 1, arena.lanes):
            path = arena.folder()
            act = arena.random.choice([kill, tear])
            outcome = start(method, path, Events(path, number, act).install).wait()
            if outcome.code == -signal.SIGKILL:
                problem = completed(arena, method, path)
            else:
                problem = f"no kill: {outcome}"
            yield problem and f"{method}, {act.__name__} at event {number}: {problem}"
            shutil.rmtree(path, ignore_errors=True)


def events_of(arena: Arena, method: str) -> int:
    """How many changes of files the whole run of a method makes."""
    if method not in arena.events:
        path = arena.folder()
        events = Events(path)
        start(method, path, events.install).wait()
        shutil.rmtree(path)
        arena.events[method] = events.count
    return arena.events[method]
