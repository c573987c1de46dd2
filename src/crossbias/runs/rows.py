"""A row of the comparison: one method with one configuration, over its seeds."""

import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.runs.columns import COLUMNS, Judged, judged
from crossbias.runs.read import FinishedRun, read_run
from crossbias.verify import Estimate, over_seeds


class Cell(NamedTuple):
    """One number of a row.

    Of one run, the limits are those over test samples; of several seeds, those over trainings.
    """

    value: float
    low: float
    high: float
    deviation: float  # over seeds; NaN for one run
    n: int  # test samples


class Row(NamedTuple):
    """All runs that differ in nothing but the seed."""

    label: str
    runs: tuple[FinishedRun, ...]
    judged: tuple[Judged, ...]
    cells: Mapping[str, Cell | None]

    @property
    def supervision(self) -> str:
        """What the method knew about the bias."""
        return str(self.runs[0].config["supervision"])

    @property
    def selection(self) -> str:
        """The rule by which the epoch was chosen."""
        return str(self.runs[0].config["selection"])


def rows_of(
    runs: Sequence[FinishedRun], columns: Sequence[str], attribute: str | None
) -> list[Row]:
    """One row for the runs of each recipe, in the order they are named.

    Raises:
        CrossbiasError: Two runs agree in everything, the seed too: counting both would pretend
            to know more.
    """
    recipes: dict[str, list[FinishedRun]] = {}
    for run in runs:
        key = json.dumps([recipe(run), run.config["supervision"]])
        same = recipes.setdefault(key, [])
        for other in same:
            if _seed(other) == _seed(run):
                raise CrossbiasError(
                    f"{other.path} and {run.path} are the same training: everything agrees, seed "
                    f"{_seed(run)} too; name one of them"
                )
        same.append(run)
    groups = list(recipes.values())
    labels = _labels([group[0] for group in groups])
    return [
        _row(label, group, columns, attribute) for label, group in zip(labels, groups, strict=True)
    ]


def _row(
    label: str, runs: Sequence[FinishedRun], columns: Sequence[str], attribute: str | None
) -> Row:
    parts = tuple(judged(run, attribute) for run in runs)
    cells = {name: _cell([COLUMNS[name](part) for part in parts]) for name in columns}
    return Row(label, tuple(runs), parts, cells)


def _cell(estimates: Sequence[Estimate | None]) -> Cell | None:
    present = [estimate for estimate in estimates if estimate is not None and estimate.n]
    if len(present) < len(estimates) or not present:
        return None
    if len(present) == 1:
        only = present[0]
        return Cell(only.value, only.low, only.high, math.nan, only.n)
    spread = over_seeds([estimate.value for estimate in present])
    return Cell(spread.mean, spread.low, spread.high, spread.deviation, present[0].n)


def _labels(firsts: Sequence[FinishedRun]) -> list[str]:
    """The method's name, and where several rows share it the settings in which they differ."""
    settings = [_settings(run) for run in firsts]
    names = []
    for run, own in zip(firsts, settings, strict=True):
        rivals = [s for r, s in zip(firsts, settings, strict=True) if r.title == run.title]
        keys = {key for rival in rivals for key in rival}
        differing = sorted(key for key in keys if any(s.get(key) != own.get(key) for s in rivals))
        words = ", ".join(f"{key} {own.get(key)}" for key in differing)
        names.append(f"{run.title} ({words})" if words else run.title)
    return names


def _settings(run: FinishedRun) -> dict[str, Any]:
    """Everything that makes a recipe, flat."""
    found: dict[str, Any] = {
        "selection": run.config["selection"],
        "supervision": run.config["supervision"],
    }
    for part in ("method", "network", "data", "train"):
        for name, value in (run.config.get(part) or {}).items():
            found[f"{part} {name}"] = value
    for split, digest in (run.config["data"].get("hashes") or {}).items():
        found[f"{split} data"] = str(digest)[:8]
    return {name: value for name, value in found.items() if name not in _NOT_A_SETTING}


_NOT_A_SETTING = ("data hashes", "train seed")


def _seed(run: FinishedRun) -> int:
    return int(run.config["train"]["seed"])


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
