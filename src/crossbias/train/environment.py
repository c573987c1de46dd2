"""Versions, hardware, commit and command behind a result."""

import platform
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch


def environment(device: torch.device) -> dict[str, str]:
    """Versions and hardware, for the record."""
    return {
        "crossbias": package_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": _in_words(device),
    }


def package_version() -> str:
    """The installed version, or ``source`` for a source tree on the path."""
    try:
        return version("crossbias")
    except PackageNotFoundError:
        return "source"


@cache
def source_commit() -> str | None:
    """The commit of crossbias where it runs from a git checkout, marked if it was changed.

    Asked once in a process, which keeps the code that it imported.
    """
    here = Path(__file__).parent
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
        inside = subprocess.run(
            ["git", "ls-files", "--error-unmatch", __file__],
            cwd=here, capture_output=True, check=False,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip() if inside.returncode == 0 else None


def command_line() -> str:
    """The command that is running, as a person would type it again."""
    program = Path(sys.argv[0]).name
    return shlex.join([program, *sys.argv[1:]])


def _in_words(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({torch.get_num_threads()} threads)"
