"""Kills of sequences of runs: of the program that trains a table, and of a sweep."""

import os
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import table
from benchmarks.fire.forks import Command
from benchmarks.fire.subjects import METHODS, OWN_IMAGES, SETTINGS, Arena, difference
from crossbias.sweep import Plan, run_sweep

_RUNS = 3  # of one sequence
_MOST_KILLS = 6
_START_SECONDS = 3.0  # of a sweep, whose processes are forks of a new one that imports torch


def of_tables(arena: Arena) -> Iterator[str | None]:
    """Kill the program of a table several times, then let it end."""
    methods = _some_methods(arena)
    path = arena.folder()
    places = {name: path / name / "own" / "0" for name in methods}

    def train() -> None:
        subprocess.run = _forked  # type: ignore[assignment]
        for name in methods:
            table.train(_job(arena, name), path, 1)

    yield from _killed(arena, train, places, before=0.0)
    shutil.rmtree(path, ignore_errors=True)


def of_sweeps(arena: Arena) -> Iterator[str | None]:
    """Kill a sweep with its processes several times, then let it end."""
    path, plan = arena.folder(), arena.folder()
    plan.write_text("\n".join(_plan_lines(arena, _some_methods(arena))))
    jobs = Plan.read(plan).jobs()
    places = {job.method: path / "runs" / job.name for job in jobs}

    def train() -> None:
        states = [run.state for run in run_sweep(Plan.read(plan), path, jobs=2)]
        if states != ["finished"] * len(jobs):
            raise RuntimeError(f"the runs ended as {states}")

    yield from _killed(arena, train, places, before=_START_SECONDS)
    shutil.rmtree(path, ignore_errors=True)
    plan.unlink()


def _some_methods(arena: Arena) -> list[str]:
    own = [name for name in arena.methods if METHODS[name].data == OWN_IMAGES]
    return arena.random.sample(own, min(_RUNS, len(own)))


def _killed(
    arena: Arena, train: Callable[[], None], places: Mapping[str, Path], *, before: float
) -> Iterator[str | None]:
    """Kill a program at random moments, then let it end: all runs end in the same bits.

    Args:
        arena: Where the undisturbed runs are.
        train: Trains all runs, or what is missing of them.
        places: The folder of each run, by its method.
        before: Seconds that the program needs before its first run.
    """
    length = sum(arena.seconds[name] for name in places if arena.whole(name))
    kills = 0
    for _ in range(arena.random.randint(1, _MOST_KILLS)):
        process = _started(train)
        time.sleep(before + arena.random.uniform(0.05, 1.0) * (length + before))
        os.killpg(process, signal.SIGKILL)
        kills += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    code = os.waitstatus_to_exitcode(os.waitpid(_started(train), 0)[1])
    problems = [f"the sequence ended with exit code {code}"] if code else []
    for name, place in places.items() if not problems else ():
        found = difference(arena.whole(name), place)
        problems += [f"{name}: {found}"] if found else []
    yield from [problems[0] if problems else None, *[None] * kills][: max(kills, len(problems[:1]))]


def _started(train: Callable[[], None]) -> int:
    """Train in a fork with a process group of its own; its process."""
    process = os.fork()
    if process:
        os.setpgid(process, process)  # here too, so that it has happened before a kill
        return process
    code = 1
    os.setpgid(0, 0)
    try:
        train()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _plan_lines(arena: Arena, methods: Sequence[str]) -> Iterator[str]:
    """The same runs as a plan."""
    for name in methods:
        own = (setting.split("=") for setting in METHODS[name].settings)
        yield from ("[[method]]", f'name = "{name}"', *(f'{key} = "{value}"' for key, value in own))
    yield from ("[data]", f'name = "folder:{arena.images()}"', "size = 8")
    yield from (
        f'{name.strip("-")} = "{value}"'
        for name, value in zip(OWN_IMAGES[::2], OWN_IMAGES[1::2], strict=True)
    )
    yield from ("[network]", 'name = "mlp"', "[train]")
    yield from (
        f'{key.removeprefix("train.")} = "{value}"'
        for key, value in (setting.split("=") for setting in SETTINGS)
    )


def _job(arena: Arena, method: str) -> table.Job:
    options = dict(zip(OWN_IMAGES[::2], OWN_IMAGES[1::2], strict=True))
    data = {f"data.{name.strip('-')}": value for name, value in options.items()}
    own = dict(setting.split("=") for setting in (*SETTINGS, *METHODS[method].settings))
    named = {"data.name": f"folder:{arena.images()}", "data.size": 8, "network.name": "mlp"}
    return table.Job(method, "own", 0, None, method, named | data | own)


def _forked(
    command: Sequence[str], *_: object, **__: object
) -> subprocess.CompletedProcess[str]:  # what subprocess.run returns
    """Run what follows the program in ``python -c PROGRAM`` in a fork."""
    outcome = Command(command[3:]).wait()
    return subprocess.CompletedProcess(command, outcome.code, outcome.out, outcome.err)
