"""Kills of a sequence of runs: of the program that trains a table, with its trainings."""

import os
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import table
from benchmarks.fire.forks import Command
from benchmarks.fire.subjects import METHODS, OWN_IMAGES, SETTINGS, Arena, difference

_RUNS = 3  # of one sequence
_MOST_KILLS = 6


def of_tables(arena: Arena) -> Iterator[str | None]:
    """Kill a sequence several times, then let it end: all its runs end in the same bits."""
    own = [name for name in arena.methods if METHODS[name].data == OWN_IMAGES]
    methods = arena.random.sample(own, min(_RUNS, len(own)))
    length = sum(arena.seconds[name] for name in methods if arena.whole(name))
    path, kills = arena.folder(), 0
    for _ in range(arena.random.randint(1, _MOST_KILLS)):
        process = _started(arena, methods, path)
        time.sleep(arena.random.uniform(0.05, 1.0) * length)
        os.killpg(process, signal.SIGKILL)
        kills += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    code = os.waitstatus_to_exitcode(os.waitpid(_started(arena, methods, path), 0)[1])
    problems = [f"the sequence ended with exit code {code}"] if code else []
    for name in methods if not problems else ():
        found = difference(arena.whole(name), path / name / "own" / "0")
        problems += [f"{name}: {found}"] if found else []
    yield from [problems[0] if problems else None, *[None] * kills][: max(kills, len(problems[:1]))]
    shutil.rmtree(path, ignore_errors=True)


def _started(arena: Arena, methods: Sequence[str], path: Path) -> int:
    """Train what is missing in a fork, whose trainings are forks of it; its process."""
    process = os.fork()
    if process:
        os.setpgid(process, process)  # here too, so that it has happened before a kill
        return process
    code = 1
    os.setpgid(0, 0)
    try:
        table.Program = _Forked  # type: ignore[assignment, misc]
        for name in methods:
            table.train(_job(arena, name), path, 1)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _job(arena: Arena, method: str) -> table.Job:
    options = dict(zip(OWN_IMAGES[::2], OWN_IMAGES[1::2], strict=True))
    data = {f"data.{name.strip('-')}": value for name, value in options.items()}
    own = dict(setting.split("=") for setting in (*SETTINGS, *METHODS[method].settings))
    named = {"data.name": f"folder:{arena.images()}", "data.size": 8, "network.name": "mlp"}
    return table.Job(method, "own", 0, None, method, named | data | own)


class _Forked:
    """Runs commands as ``benchmarks.processes.Program`` does, but in forks of this process."""

    @classmethod
    def run(
        cls, _: str, arguments: Sequence[str], *__: object, **___: object
    ) -> subprocess.CompletedProcess[str]:
        """Run what follows the name of the program, and wait for its end."""
        outcome = Command(arguments[1:]).wait()
        return subprocess.CompletedProcess(arguments, outcome.code, outcome.out, outcome.err)
