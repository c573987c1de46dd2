"""Timing two things fairly, and keeping what was found."""

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

import crossbias
from crossbias.train.environment import environment, source_commit

RESULTS = Path(__file__).parent / "results"
COMMIT = source_commit(":/benchmarks/*.py")
"""Of the code that was imported; what is committed while a program runs does not count."""


def seconds(action: Callable[[], object]) -> float:
    """Wall time of an action, including the work on the device."""
    _synchronize()
    start = time.perf_counter()
    action()
    _synchronize()
    return time.perf_counter() - start


def alternate(actions: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Times of several actions, taking turns so that a busy machine disturbs all alike."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            times[name].append(seconds(action))
    return times


def ratio(times: dict[str, list[float]], first: str, second: str) -> float:
    """How much longer the first takes: the median over the turns of their ratio."""
    pairs = zip(times[first], times[second], strict=True)
    return statistics.median(one / other for one, other in pairs)


def in_a_process(
    code: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> dict[str, float]:
    """Seconds and megabytes of a program with this checkout's crossbias, imports included.

    The memory is the largest of the process and of the one that starts it, so stay small.
    """
    source = str(Path(crossbias.__file__).parents[1])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    start = time.perf_counter()
    with open(folder / "printed", "w") as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=folder, env=os.environ | environment | {"PYTHONPATH": path},
            stdout=printed, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError((folder / "printed").read_text()[-2000:])
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "processor seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "MB": round(usage.ru_maxrss / 1024, 1),
    }


def apart(action: Callable[..., None], *arguments: object) -> None:
    """Do something in another process, so that this one stays small."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(action, *arguments).result()


def keep(name: str, found: dict[str, Any], device: str, *, part: str = "") -> None:
    """Print what was found and write it, with what made it, to results/.

    Args:
        name: Name of the program.
        found: What it found.
        device: The device it measured on.
        part: Name of the part that was measured, if the program measures one part at a time.
    """
    record = {
        "benchmark": name,
        "command": " ".join(["python", "-m", f"benchmarks.{name}", *map(_shown, sys.argv[1:])]),
        "commit": COMMIT,
        "environment": environment(torch.device(device)),
        "found": found,
    }
    RESULTS.mkdir(exist_ok=True)
    of_part = f"-{part}" if part else ""
    path = RESULTS / f"{name}{of_part}-{torch.device(device).type}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"{name}: {json.dumps(found)}")


def _shown(argument: str) -> str:
    """An argument of the command; where the data lie on one machine tells others nothing."""
    outside = Path(argument).is_absolute() or argument.startswith("..")
    return "DATA" if outside else argument


def device_named() -> str:
    """The device on the command line, or the CPU."""
    return sys.argv[1] if len(sys.argv) > 1 else "cpu"


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
