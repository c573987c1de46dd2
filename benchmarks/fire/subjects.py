"""The runs under fire: one small training of every method, and what it must end in."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from benchmarks.fire.forks import Command
from crossbias.errors import CrossbiasError
from crossbias.runs import RunFolder, read_run
from crossbias.runs.folder import as_record
from crossbias.runs.writer import LOCK_FILES

_DRAWN = ("--data", "glyphs", "--set", "data.size=24", "--set", "data.test_size=12")
OWN_IMAGES = ("--labels", "labels.csv", "--target", "disease", "--bias", "hospital")
"""How a folder of images is read that ``write_images`` wrote."""


@dataclass(frozen=True)
class Subject:
    """What a method is trained with, such as settings that make its stages short.

    Without a data set, it is the arena's own folder of images.
    """

    settings: tuple[str, ...] = ()
    data: tuple[str, ...] = OWN_IMAGES
    network: str = "mlp"


_BIASED = "biased=small-convnet"
_ENSEMBLE = ("ensemble=true", "members=2", "ensemble_length=3")
_CONVOLUTIONS = (_DRAWN, "simple-convnet-1")
METHODS: dict[str, Subject] = {
    "erm": Subject(),
    "aflite": Subject(("classifiers=4", "feature_epochs=1")),
    "class-balanced": Subject(),
    "denoised": Subject(("noise_epochs=1",)),
    "disent": Subject(_ENSEMBLE),
    "hex": Subject((), *_CONVOLUTIONS),
    "ie": Subject(("members=2", "ensemble_length=3"), *_CONVOLUTIONS),
    "jtt": Subject(("first_epochs=1",)),
    "lff": Subject(_ENSEMBLE),
    "pgd": Subject(("biased_epochs=1",)),
    "repair": Subject(("probe_epochs=1",)),
    "learned-mixin": Subject((_BIASED, "biased_epochs=1"), *_CONVOLUTIONS),
    "rebias": Subject((_BIASED,), *_CONVOLUTIONS),
    "rubi": Subject((_BIASED,), *_CONVOLUTIONS),
    "dfr": Subject(("draws=2", "strengths=1.0")),
    "end": Subject((), *_CONVOLUTIONS),
    "group-balanced": Subject(),
    "group-dro": Subject(),
    **{
        name: Subject(("biased_epochs=1",), *_CONVOLUTIONS)
        for name in ("lnl", "blindeye", "grl", "blindeye+grl")
    },
}
"""Every method."""

SETTINGS = (
    "train.epochs=3", "train.batch_size=12", "train.device=cpu",
    "train.selection=validation-accuracy", "train.workers=0",
)  # fmt: skip

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
        methods: Names of the methods to fight with.
        batch: How many damages the fuzzer makes of one kind before another kind has its turn.
    """

    home: Path
    random: Random
    methods: tuple[str, ...] = tuple(METHODS)
    batch: int = 20
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
        return self.random.choice(self.methods)

    def start(
        self, method: str, path: Path, prepare: Callable[[], object] | None = None, *, seed: int = 0
    ) -> Command:
        """Begin the run of a method in a folder."""
        subject = METHODS[method]
        own = ("--data", f"folder:{self.images()}", "--set", "data.size=8")
        data = (*own, *subject.data) if subject.data == OWN_IMAGES else subject.data
        values = [part for each in (*SETTINGS, *subject.settings) for part in ("--set", each)]
        named = ("--method", method, "--network", subject.network, "--out", path, "--seed", seed)
        return Command(["train", *data, *named, *values, "--quiet"], prepare)

    def go_on(
        self, method: str, path: Path, prepare: Callable[[], object] | None = None
    ) -> Command:
        """Continue a run, or begin it where the folder holds none, as a person would."""
        started = (path / "config.json").exists()
        return resume(path, prepare) if started else self.start(method, path, prepare)

    def images(self) -> Path:
        """A folder of images."""
        path = self.home / "images"
        if not path.exists():
            write_images(path, 96)
        return path

    def whole(self, method: str, *, seed: int = 0) -> Path:
        """The finished, undisturbed run of a method."""
        path = self.home / f"whole-{method}-{seed}"
        if not path.exists():
            begin = time.monotonic()
            outcome = self.start(method, path, seed=seed).wait()
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
            command = self.start(method, tried)
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


def write_images(path: Path, count: int) -> None:
    """A folder of small images of several formats, and the table of their labels."""
    path.mkdir()
    lines = ["file,disease,hospital"]
    for number in range(count):
        name = f"{number}.{('png', 'jpg', 'bmp', 'gif')[number % 4]}"
        pixels = np.random.default_rng(number).integers(0, 256, (9, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path / name)
        lines.append(f"{name},{number % 2},{('north', 'south')[number // 2 % 2]}")
    (path / "labels.csv").write_text("\n".join(lines) + "\n")


def _lines(path: Path) -> list[str]:
    log = path / "log.jsonl"
    return log.read_text(errors="replace").splitlines() if log.exists() else []


def resume(path: Path, prepare: Callable[[], object] | None = None) -> Command:
    """Continue the run in a folder."""
    return Command(["train", "--resume", "--out", path, "--quiet"], prepare)


def completed(arena: Arena, method: str, path: Path) -> str | None:
    """Bring a disturbed run to its end; what is wrong with the result, if anything."""
    if not (path / "done").exists():
        outcome = arena.go_on(method, path).wait()
        if outcome.code:
            return f"{method} does not go on: {outcome}"
    return difference(arena.whole(method), path)


def difference(whole: Path, path: Path, *, deleted: str = "") -> str | None:
    """How a finished run differs from the undisturbed one without saying so, if it does.

    A file that the try deleted may be missing: a stage that nothing reads again is not repeated.
    """
    return next(_differences(whole, path, deleted), None)


def _differences(whole: Path, path: Path, deleted: str) -> Iterator[str]:
    try:
        symptoms = [symptom.name for symptom in read_run(path).health]
        unhashed = {*LOCK_FILES, "done"}
        RunFolder(path).check(*(file for file in files(path) if file.name not in unhashed))
    except CrossbiasError as error:
        yield str(error)
        return
    process, logs = set(_OF_THE_PROCESS), [logged(run) for run in (whole, path)]
    if any(name.endswith("damaged log") for name in symptoms):  # which says that lines are missing
        process |= {"health.json"}
        logs[0] = [record for record in logs[0] if record in logs[1]]
    names = [
        {file.relative_to(run).as_posix() for file in files(run)} - {*LOCK_FILES, *process}
        for run in (whole, path)
    ]  # a lock that nobody holds stays behind if a process is killed after its last file
    if deleted.startswith("stages/"):  # the list of stages lacks it, too
        names = [each - {"stages.json"} for each in names]
    if alone := (names[0] ^ names[1]) - {deleted}:
        yield f"files that only one has: {', '.join(sorted(alone))}"
    for name in sorted(names[0] & names[1]):
        if _content(whole / name) != _content(path / name):
            yield f"{name} has other bits"
    if logs[0] != logs[1]:
        yield "log.jsonl has other epochs or losses"


def files(path: Path) -> list[Path]:
    """All files of a run."""
    return sorted(file for file in path.rglob("*") if file.is_file())


def _content(file: Path) -> object:
    if file.suffix != ".json":
        return file.read_bytes()
    content = json.loads(file.read_text())
    # Which symptoms were known when a stage ended depends on where the run was disturbed.
    return content | {"health": None} if file.name == "stages.json" else content


def logged(path: Path) -> list[dict[str, object]]:
    """What a run logged, but for the times and damaged lines."""
    records = [record for line in _lines(path) if (record := as_record(line)) is not None]
    return [{key: each[key] for key in each if key not in _TIMES} for each in records]


def is_root() -> bool:
    """Whether this process may mount file systems."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
