"""Kills of a sweep: of the process that drives it, of one that trains, or of all at once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.fire.forks import PATIENCE
from benchmarks.fire.subjects import METHODS, OWN_IMAGES, SETTINGS, Arena, difference
from crossbias.runs.writer import is_written
from crossbias.sweep import Plan

_RUNS = 3  # of one sweep
_MOST_KILLS = 3
_START_SECONDS = 4.0  # before a sweep trains


def kills(arena: Arena) -> Iterator[str | None]:
    """Kill a sweep several times, then let it end: all its runs end in the same bits."""
    own = [name for name in arena.methods if METHODS[name].data == OWN_IMAGES]
    methods = arena.random.sample(own, min(_RUNS, len(own)))
    sweep = _Sweep(arena, methods)
    killed = 0
    for _ in range(arena.random.randint(1, _MOST_KILLS)):
        victim = arena.random.choice(["driver", "all", "worker"])
        killed += sweep.disturbed(victim)
    problem = sweep.completed()
    yield from [problem, *[None] * killed][: max(killed, 1 if problem else 0)]
    sweep.clean()


class _Sweep:
    """A sweep under fire, by the command that a person types.

    Args:
        arena: Where it is fought.
        methods: One run for each.
    """

    def __init__(self, arena: Arena, methods: Sequence[str]) -> None:
        self.arena, self.path, self.plan = arena, arena.folder(), arena.folder()
        self.plan.write_text("\n".join(_lines(arena, methods)))
        jobs = Plan.read(self.plan).jobs()
        self.runs = {job.method: self.path / "runs" / job.name for job in jobs}
        self.seconds = sum(arena.seconds[name] for name in methods if arena.whole(name))
        self.printed = arena.folder()
        self.drivers: list[int] = []

    def disturbed(self, victim: str) -> bool:
        """Start the sweep and kill a part of it at a random moment; whether there was one."""
        driver, random = self._start(), self.arena.random
        if random.random() < 0.75:
            _wait(lambda: any(map(is_written, self.runs.values())) or driver.poll() is not None)
            time.sleep(random.uniform(0, 0.7) * self.seconds)
        else:
            time.sleep(random.uniform(0, 1) * _START_SECONDS)
        if driver.poll() is not None:
            return False
        if victim == "worker":
            killed = any(_kill_writer(run, driver.pid) for run in self.runs.values())
            with suppress(subprocess.TimeoutExpired):  # the other runs go on
                driver.wait(PATIENCE)
            return killed
        if victim == "all":
            os.killpg(driver.pid, signal.SIGKILL)
        else:
            driver.kill()
        driver.wait()
        return True

    def completed(self) -> str | None:
        """Bring the sweep to its end; what is wrong with the result, if anything."""
        driver = self._start()
        try:
            code = driver.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return f"the sweep does not end: {self._said()}"
        if code:
            return f"the sweep ended with exit code {code}: {self._said()}"
        for name, run in self.runs.items():
            if found := difference(self.arena.whole(name), run):
                return f"{name}: {found}"
        return None

    def clean(self) -> None:
        """Remove the sweep and whatever still runs of it."""
        for driver in self.drivers:
            with suppress(ProcessLookupError):
                os.killpg(driver, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)
        for file in (self.plan, self.printed):
            file.unlink()

    def _start(self) -> subprocess.Popen[bytes]:
        jobs = max(os.cpu_count() or 1, 2)  # one thread each, as the undisturbed runs
        command = [sys.executable, "-m", "crossbias", "sweep", self.plan, "--out", self.path]
        command += ["--jobs", str(jobs), "--retry", "--quiet"]
        with open(self.printed, "wb") as printed:
            process = subprocess.Popen(
                command, stdout=printed, stderr=printed, start_new_session=True
            )
        self.drivers.append(process.pid)
        return process

    def _said(self) -> str:
        return " | ".join(self.printed.read_text(errors="replace").splitlines()[-4:])[-600:]


def _wait(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)


def _kill_writer(run: Path, group: int) -> bool:
    """Kill the process that trains a run, if there is one and it belongs to the sweep."""
    try:
        process = int(json.loads((run / "writer.json").read_text())["process"])
        if os.getpgid(process) == group:
            os.kill(process, signal.SIGKILL)
            return True
    except (OSError, ValueError):  # it has ended, or is about to begin
        pass
    return False


def _lines(arena: Arena, methods: Sequence[str]) -> Iterator[str]:
    """The plan of runs that ``Arena.whole`` trains one by one."""
    for name in methods:
        own = (setting.split("=") for setting in METHODS[name].settings)
        yield from ("[[method]]", f'name = "{name}"', *(f'{key} = "{value}"' for key, value in own))
    yield from ("[data]", f'name = "folder:{arena.images()}"', "size = 8")
    for name, value in zip(OWN_IMAGES[::2], OWN_IMAGES[1::2], strict=True):
        yield f'{name.strip("-")} = "{value}"'
    yield from ("[network]", 'name = "mlp"', "[train]")
    for setting in SETTINGS:
        yield '{} = "{}"'.format(*setting.removeprefix("train.").split("="))
