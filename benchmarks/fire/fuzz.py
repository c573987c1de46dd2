"""A fuzzer: damages something in many ways, and watches how a command takes it."""

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.fire.canary import VARIABLE
from benchmarks.fire.forks import Outcome
from benchmarks.fire.subjects import Arena

Body = Callable[[Arena, st.DataObject, Path], Outcome]
"""Damages something in a new folder, and returns how a command took it."""

_MEMORY = 4 * 2**30  # bytes that a command may take beyond what its process has


def attack(body: Body, arena: Arena) -> Iterator[str | None]:
    """Damage something in so many ways as a batch has: a command takes it, or refuses it."""
    problems: list[str | None] = []
    canary = arena.home / "canary"
    os.environ[VARIABLE] = str(canary)

    @seed(arena.random.getrandbits(32))
    @settings(
        max_examples=arena.batch + 1, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 2**32), st.data())
    def once(number: int, data: st.DataObject) -> None:
        if not number:  # the first example is the simplest one, the same in every batch
            return
        path = arena.folder()
        outcome = body(arena, data, path)
        problem = None if outcome.sane else str(outcome)
        problems.append("code of the file was run" if canary.exists() else problem)
        canary.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)

    once()
    yield from problems


def sparingly() -> None:
    """Limit the memory of a command: one that needs gigabytes for a small file has failed."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
