"""The runs under fire: one small training of every method, and what it must end in."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.fire.forks import Command
from crossbias.errors import CrossbiasError
from crossbias.runs import RunFolder
from crossbias.runs.folder import as_record
from crossbias.runs.writer import LOCK_FILES

METHODS: dict[str, tuple[str, ...]] = {
    "erm": (), "class-balanced": (), "group-balanced": (), "end": (),
    "rebias": ("network.kernel=3",), "denoised": ("noise_epochs=1",),
    "lff": ("ensemble=true", "members=2", "ensemble_length=3"),
    "ie": ("members=2", "ensemble_length=3"), "pgd": ("biased_epochs=1",),
    "lnl": ("biased_epochs=1",),
    "dfr": ("draws=2", "strengths=1.0", "data.rho=0.1", "data.test_size=1200"),  # no empty group
}  # fmt: skip
"""Every method, with settings that make its stages short."""

SETTINGS = (
    "data.size=48", "data.test_size=12", "train.epochs=3", "train.batch_size=12",
    "train.device=cpu", "train.selection=validation-accuracy", "train.workers=0",
)  # fmt: skip
NETWORKS = {"rebias": "convnet"}

_OF_THE_PROCESS = {"config.json", "log.jsonl", "done", "checkpoint.pt"}  # times and commands
_TIMES = ("seconds", "samples_per_second")


class Skipped(Exception):
    """A kind of try that this machine does not allow, with the reason."""


@dataclass
class Arena:
    """A folder to fight in, and the undisturbed runs.

    Args:
        home: The folder. Each try has a new one inside.
        random: Decides everything that is random in the tries.
        lane: Number of this process among those that fight at the same time.
        lanes: How many there are.
        batch: How many damages the fuzzer makes of one kind before another kind has its turn.
    """

    home: Path
    random: Random
    lane: int = 0
    lanes: int = 1
    batch: int = 10
    seconds: dict[str, float] = field(default_factory=dict)  # of the undisturbed runs
    events: dict[str, int] = field(default_factory=dict)  # changes of files in them
    read: dict[object, str] = field(default_factory=dict)  # what readers print of them
    _tries: int = 0

    def folder(self) -> Path:
        """A new folder, on the disk but not yet made."""
        self._tries += 1
        return self.home / f"try-{self._tries}"

    def method(self) -> str:
        """A method by chance."""
        return self.random.choice(list(METHODS))

    def whole(self, method: str) -> Path:
        """The finished, undisturbed run of a method."""
        path = self.home / f"whole-{method}"
        if not path.exists():
            begin = time.monotonic()
            outcome = start(method, path).wait()
            self.seconds[method] = time.monotonic() - begin
            if outcome.code:
                raise RuntimeError(f"an undisturbed run of {method} failed: {outcome}")
        return path

    def half(self, method: str) -> Path:
        """A run of a method that was killed late, with a checkpoint or a stage."""
        self.whole(method)
        path = self.home / f"half-{method}"
        while not path.exists():
            tried = self.folder()
            command = start(method, tried)
            while len(_lines(tried)) < 3 and not command.ended():
                time.sleep(0.002)
            command.send(signal.SIGKILL)
            command.wait()
            if not (tried / "done").exists() and _lines(tried):
                tried.rename(path)
            shutil.rmtree(tried, ignore_errors=True)
        return path

    def copied(self, path: Path) -> Path:
        """A copy of a run, to be damaged."""
        return Path(shutil.copytree(path, self.folder()))


def _lines(path: Path) -> list[str]:
    log = path / "log.jsonl"
    return log.read_text(errors="replace").splitlines() if log.exists() else []


def start(method: str, path: Path, prepare: Callable[[], object] | None = None) -> Command:
    """Begin the run of a method in a folder."""
    values = [part for each in (*SETTINGS, *METHODS[method]) for part in ("--set", each)]
    network = NETWORKS.get(method, "simple-convnet-1")
    named = ("--data", "glyphs", "--method", method, "--network", network, "--out", path)
    return Command(["train", *named, *values, "--quiet"], prepare)


def resume(path: Path, prepare: Callable[[], object] | None = None) -> Command:
    """Continue the run in a folder."""
    return Command(["train", "--resume", "--out", path, "--quiet"], prepare)


def go_on(method: str, path: Path, prepare: Callable[[], object] | None = None) -> Command:
    """Continue a run, or begin it where the folder holds none, as a person would."""
    if (path / "config.json").exists():
        return resume(path, prepare)
    return start(method, path, prepare)


def completed(arena: Arena, method: str, path: Path) -> str | None:
    """Bring a disturbed run to its end; what is wrong with the result, if anything."""
    if not (path / "done").exists():
        outcome = go_on(method, path).wait()
        if outcome.code:
            return f"{method} does not go on: {outcome}"
    return difference(arena.whole(method), path)


def difference(whole: Path, path: Path) -> str | None:
    """How a finished run differs from the undisturbed one, if it does."""
    names = [
        {file.relative_to(run).as_posix() for file in files(run)} - set(LOCK_FILES)
        for run in (whole, path)
    ]  # a lock that nobody holds stays behind if a process is killed after its last file
    if names[0] != names[1]:
        return f"files that only one has: {', '.join(sorted(names[0] ^ names[1]))}"
    for name in sorted(names[0] - _OF_THE_PROCESS):
        if _content(whole / name) != _content(path / name):
            return f"{name} has other bits"
    expected, found = logged(whole), logged(path)
    readable = [record for record in found if record is not None]
    lost = [record for record in expected if record not in readable]
    # A damaged line stays, is reported by readers, and its epoch may have been trained again.
    if readable != [each for each in expected if each not in lost] or (
        len(lost) > len(found) - len(readable)
    ):
        return "log.jsonl has other epochs or losses"
    try:
        RunFolder(path).check(*(path / name for name in names[1] - {"done"}))
    except CrossbiasError as error:
        return str(error)
    return None


def files(path: Path) -> list[Path]:
    """All files of a run."""
    return sorted(file for file in path.rglob("*") if file.is_file())


def _content(file: Path) -> object:
    return json.loads(file.read_text()) if file.suffix == ".json" else file.read_bytes()


def logged(path: Path) -> list[dict[str, object] | None]:
    """What a run logged, but for the times; None for a damaged line, which readers report."""
    records = [as_record(line) for line in _lines(path)]
    return [each and {key: each[key] for key in each if key not in _TIMES} for each in records]


def is_root() -> bool:
    """Whether this process may mount file systems."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
