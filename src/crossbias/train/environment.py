"""Versions, hardware, commit and command behind a result."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import numpy as np
import torch

_DECIDE_BITS: Final = ("crossbias", "torch", "numpy", "platform", "instructions", "device")
_MOST_THREADS: Final = 1024


def environment(device: torch.device) -> dict[str, str]:
    """Versions and hardware, for the record."""
    return {
        "crossbias": package_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "device": _in_words(device),
    }


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs between two environments that can change the last bits of a result.

    The number of threads is not among it: ``same_threads`` restores it.

    >>> differences({"torch": "2.6", "device": "cpu (1 threads)"},
    ...             {"torch": "2.7", "device": "cpu (2 threads)"})
    ['torch 2.6, now 2.7']
    """
    pairs = {name: (before.get(name), now.get(name)) for name in _DECIDE_BITS}
    without_threads = {
        name: tuple(str(text).partition(" (")[0] for text in pair) for name, pair in pairs.items()
    }
    return [
        f"{name} {then}, now {today}"
        for name, (then, today) in without_threads.items()
        if then != today and pairs[name][0] is not None
    ]


@contextmanager
def same_threads(recorded: Mapping[str, str]) -> Iterator[None]:
    """Inside this, torch computes with as many threads as the environment of a run records.

    Sums over threads are rounded otherwise, so that another number gives other bits.
    """
    number, before = recorded.get("threads", ""), torch.get_num_threads()
    known = number.isdecimal() and 0 < int(number) <= _MOST_THREADS
    if not known or int(number) == before:
        yield
        return
    torch.set_num_threads(int(number))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def package_version() -> str:
    """The installed version, or ``source`` for a source tree on the path."""
    try:
        return version("crossbias")
    except PackageNotFoundError:
        return "source"


@cache
def source_commit(*programs: str) -> str | None:
    """The commit of crossbias where it runs from a git checkout, marked if its code was changed.

    Other files of the checkout, such as results, may have changed. Asked once in a process, which
    keeps the code that it imported.

    Args:
        programs: Patterns, as git has them, of further files that are code.
    """
    package = Path(__file__).parents[1]
    try:
        _git(package, "ls-files", "--error-unmatch", __file__)
        commit = _git(package, "rev-parse", "--short=12", "HEAD")
        changed = _git(package, "status", "--porcelain", "--", ".", *programs)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def command_line() -> str:
    """The command that is running, as a person would type it again."""
    program = Path(sys.argv[0]).name
    return shlex.join([program, *sys.argv[1:]])


def _in_words(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({torch.get_num_threads()} threads)"
