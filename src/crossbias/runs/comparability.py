"""Which runs can be compared, how they are told apart, and what else they differ in."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.runs.read import FinishedRun, read_run


def read_runs(
    folders: Sequence[Path], *, what: str = "report", split: str | None = None
) -> list[FinishedRun]:
    """Read finished runs of the same data.

    Args:
        folders: The run folders.
        what: What is to be made of them, for messages.
        split: The split to judge them by; the usual one if left out.

    Raises:
        CrossbiasError: A folder is not a finished run, is damaged or named twice, lacks the split,
            or two runs were judged on different data and so cannot be compared.
    """
    if not folders:
        raise CrossbiasError(f"a {what} needs at least one run folder, got none")
    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise CrossbiasError(f"{folder} is named twice; name every run folder once")
        seen.add(folder.resolve())
    runs = [read_run(folder) for folder in folders]
    if split is not None:
        runs = [run.judged_on(split) for run in runs]
    for run in runs[1:]:
        _check_comparable(runs[0], run, what)
    return runs


def _check_comparable(first: FinishedRun, other: FinishedRun, what: str) -> None:
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
                f"{first.path} and {other.path} cannot share a {what}, they differ in {name}: "
                f"{fact(first)} and {fact(other)}; make one {what} for each"
            )


def labels(runs: Sequence[FinishedRun]) -> list[str]:
    """A name for each run, as short as it can be and still tell it from the others."""
    forms: tuple[Callable[[FinishedRun], str], ...] = (
        lambda run: run.title,
        lambda run: f"{run.title}, seed {run.config['train']['seed']}",
        lambda run: f"{run.title}, {run.path.name}",
        lambda run: f"{run.title}, {run.path}",
    )
    return [
        next(
            (form(run) for form in forms if [form(each) for each in runs].count(form(run)) == 1),
            forms[-1](run),
        )
        for run in runs
    ]


def commands(runs: Sequence[FinishedRun]) -> list[str]:
    """What to type to do all of it again: each training once, and then the report."""
    trained = [str(run.config["command"]) for run in runs if run.config.get("command")]
    folders = " ".join(shlex.quote(str(run.path)) for run in runs)
    return [*dict.fromkeys(trained), f"crossbias report {folders} -o report.html"]


def recipe(run: FinishedRun) -> str:
    """Everything that determines a run but its seed, as a key: equal recipes are repetitions."""
    parts = [run.config.get(key) for key in ("method", "network", "data", "selection")]
    return json.dumps([*parts, _training(run)], sort_keys=True)


def differences(runs: Sequence[FinishedRun]) -> list[str]:
    """What the runs differ in besides method and seed: a difference in accuracy may be its work."""
    facts: dict[str, Callable[[FinishedRun], Any]] = {
        "the rule by which the model was chosen": lambda run: run.config["selection"],
        "the training data": lambda run: run.hash_of("train"),
        "the network": lambda run: run.config.get("network"),
        "the training settings": _training,
    }
    return [name for name, fact in facts.items() if any(fact(run) != fact(runs[0]) for run in runs)]


def _training(run: FinishedRun) -> dict[str, Any]:
    return {key: value for key, value in run.config["train"].items() if key != "seed"}
