"""Reading runs that can be compared: all were judged on the same data."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.runs.read import FinishedRun, read_run

Folders = str | Path | Sequence[str | Path]
"""One run folder or several."""


def read_runs(folders: Folders, *, split: str | None = None) -> list[FinishedRun]:
    """Read finished runs of the same data, to be judged by the split or else by the usual one."""
    several = [folders] if isinstance(folders, str | Path) else folders
    paths = [Path(folder) for folder in several]
    if not paths:
        raise CrossbiasError("a comparison needs at least one run folder, got none")
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise CrossbiasError(f"{path} is named twice; name every run folder once")
        seen.add(path.resolve())
    runs = [read_run(path) for path in paths]
    if split is not None:
        runs = [run.judged_on(split) for run in runs]
    for run in runs[1:]:
        _check_comparable(runs[0], run)
    return runs


def _check_comparable(first: FinishedRun, other: FinishedRun) -> None:
    """Refuse to compare numbers that were measured on different data."""
    facts: dict[str, Callable[[FinishedRun], str | None]] = {
        "data set": lambda run: str(run.config["data"]["name"]),
        "bias attribute": lambda run: run.bias,
        "test split": lambda run: run.split,
        "classes": lambda run: ", ".join(run.test.classes),
        "bias values": lambda run: ", ".join(run.test.biases),
        "content hash of the test split": lambda run: run.hash_of(run.split),
    }
    for name, fact in facts.items():
        if fact(first) != fact(other):
            raise CrossbiasError(
                f"{first.path} and {other.path} cannot be compared, they differ in {name}: "
                f"{fact(first)} and {fact(other)}; compare runs of the same data"
            )


def differences(runs: Sequence[FinishedRun]) -> list[str]:
    """What the runs differ in besides method and seed, which may explain their accuracies."""
    facts: dict[str, Callable[[FinishedRun], Any]] = {
        "the rule by which the model was chosen": lambda run: run.config["selection"],
        "the training data": lambda run: run.hash_of("train"),
        "the network": lambda run: run.config.get("network"),
        "the training settings": lambda run: {**run.config["train"], "seed": None},
    }
    return [name for name, fact in facts.items() if any(fact(run) != fact(runs[0]) for run in runs)]
