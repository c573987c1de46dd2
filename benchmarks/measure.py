"""Timing two things fairly, and keeping what was found."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from crossbias.train.environment import environment, source_commit

RESULTS = Path(__file__).parent / "results"


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
        "commit": source_commit(),
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
