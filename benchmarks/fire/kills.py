"""Kills: at random moments, at every single change of a file, and stops on request."""

import math
import shutil
import signal
import time
from collections.abc import Iterator

from benchmarks.fire.events import Events, kill, tear
from benchmarks.fire.subjects import Arena, completed
from crossbias.train import checkpoint_rhythm

_STOPPED = 130  # exit code of a stop on request
_MOST_KILLS = 6  # of one run


def at_random_moments(arena: Arena) -> Iterator[str | None]:
    """Kill a run several times, then let it end: it must end in the same bits."""
    method, path = arena.method(), arena.folder()
    arena.whole(method)
    kills, problem, prepare = 0, None, arena.random.choice([None, have_rare_checkpoints])
    for _ in range(arena.random.randint(1, _MOST_KILLS)):
        if problem or (path / "done").exists():
            break
        command = arena.go_on(method, path, prepare)
        time.sleep(arena.random.uniform(0.05, 1.0) * arena.seconds[method])
        command.send(signal.SIGKILL)
        outcome = command.wait()
        kills += outcome.code == -signal.SIGKILL
        if outcome.code not in (0, -signal.SIGKILL):
            problem = f"{method} does not go on after a kill: {outcome}"
    problem = problem or completed(arena, method, path)
    yield from [problem, *[None] * kills][: max(kills, 1 if problem else 0)]
    shutil.rmtree(path, ignore_errors=True)


def at_every_event(arena: Arena) -> Iterator[str | None]:
    """Kill a run at each change of a file, of all methods in a random order."""
    places = [
        (method, number)
        for method in arena.methods
        for number in range(1, events_of(arena, method) + 1)
    ]
    arena.random.shuffle(places)
    for method, number in places:
        path, act = arena.folder(), arena.random.choice([kill, tear])
        outcome = arena.start(method, path, Events(path, number, act).install).wait()
        if outcome.code == -signal.SIGKILL:
            problem = completed(arena, method, path)
        else:
            problem = f"no kill: {outcome}"
        yield problem and f"{method}, {act.__name__} at event {number}: {problem}"
        shutil.rmtree(path, ignore_errors=True)


def on_request(arena: Arena) -> Iterator[str | None]:
    """Stop a run by Ctrl-C or SIGTERM: it says how to continue, and ends in the same bits."""
    method, path = arena.method(), arena.folder()
    arena.whole(method)
    command = arena.start(method, path, arena.random.choice([None, have_rare_checkpoints]))
    time.sleep(arena.random.uniform(0.2, 1.1) * arena.seconds[method])
    number = arena.random.choice([signal.SIGINT, signal.SIGTERM])
    command.send(number)
    outcome = command.wait()
    if outcome.code == _STOPPED and outcome.refused and f"--out {path}" in outcome.err:
        problem = None
    elif (path / "done").exists() or not (path / "config.json").exists():
        problem = None if outcome.code in (0, _STOPPED, -number) else str(outcome)
    else:
        problem = str(outcome)
    problem = problem or completed(arena, method, path)
    yield problem and f"{method}, {number.name}: {problem}"
    shutil.rmtree(path, ignore_errors=True)


def have_rare_checkpoints() -> None:
    """The first and the last of a stage alone, as with a large network and very short epochs."""
    checkpoint_rhythm._CHEAP, checkpoint_rhythm._REST = 0.0, math.inf


def events_of(arena: Arena, method: str) -> int:
    """How many changes of files the whole run of a method makes."""
    if method not in arena.events:
        path = arena.folder()
        events = Events(path)
        arena.start(method, path, events.install).wait()
        shutil.rmtree(path)
        arena.events[method] = events.count
    return arena.events[method]
