"""compare: finished runs of the same data in, a Comparison out, which tables and report show."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.runs.gains import (
    corrected,
    gains_over,
    positive_gains_over,
    positive_tests_against,
    tests_against,
    variances_over_seeds,
)
from crossbias.runs.overall_losses import NAMES as LOSSES
from crossbias.runs.overall_losses import overall_losses
from crossbias.runs.read import FinishedRun, read_run
from crossbias.runs.rows import OF_POSITIVE, Row, checked_metrics, rows_of, value_of
from crossbias.runs.sweeps import runs_by_data, unfinished_notes
from crossbias.verify import WEIGHTS, Estimate, McNemar
from crossbias.verify.accuracies import stratified
from crossbias.verify.between_runs import check_same_samples
from crossbias.verify.multiplicity import simultaneous

Folders = str | Path | Sequence[str | Path]  # one run folder or several


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison:
    """Runs of the same data, side by side.

    Args:
        metrics: The numbers compared, keys of ``METRICS`` or ``OF_POSITIVE``.
        runs: The runs, in the order in which they were named.
        rows: One for each method and configuration, over its seeds.
        baseline: The row that the others are compared with: plain training, or else the first.
        gains: For each other row, how much higher each accuracy is than the baseline's on the
            same test samples. With several seeds of both, the interval is about the methods; with
            one seed of either, about these trained models. The intervals of a metric hold for all
            rows together with 95% confidence.
        tests: For each other row, McNemar's test where both rows are a single run; p is corrected
            for the number of rows by Holm's method.
        attribute: The attribute that tells aligned from conflicting; None without one.
        notes: What to know before reading the numbers.
    """

    metrics: tuple[str, ...]
    runs: tuple[FinishedRun, ...]
    rows: tuple[Row, ...]
    baseline: Row
    gains: dict[str, dict[str, Estimate]]
    tests: dict[str, dict[str, McNemar]]
    attribute: str | None
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        labels = ", ".join(row.label for row in self.rows)
        return f"<{len(self.runs)} runs on {self.data} {self.split}: {labels}>"

    @property
    def data(self) -> str:
        """The name of the data set."""
        return str(self.runs[0].config["data"]["name"])

    @property
    def split(self) -> str:
        """The split all runs are judged on."""
        return self.runs[0].split

    @property
    def run_labels(self) -> tuple[str, ...]:
        """A name for each run: its row's label, with the seed where the row has several."""
        names = {}
        for row in self.rows:
            for run in row.runs:
                names[run.path] = f"{row.label}, seed {run.seed}" if row.runs[1:] else row.label
        return tuple(names[run.path] for run in self.runs)

    @property
    def correction(self) -> str:
        """What was done to the intervals of gains, after a comma; empty for one comparison."""
        return _correction(len(self.gains))

    @property
    def health(self) -> list[str]:
        """What went wrong in the trainings: one line for each text, with the rows it is about."""
        rows: dict[str, list[str]] = {}
        for row in self.rows:
            for text in row.health:
                rows.setdefault(text, []).append(row.label)
        everywhere = len(self.rows) if self.rows[1:] else 0
        return [
            f"{'All rows' if len(labels) == everywhere else '; '.join(labels)}: {text}"
            for text, labels in rows.items()
        ]

    @property
    def commands(self) -> list[str]:
        """What to type to do all of it again: each training once, and then the report."""
        trained = [str(run.config["command"]) for run in self.runs if run.config.get("command")]
        folders = " ".join(shlex.quote(str(run.path)) for run in self.runs)
        detection = self.runs[0].test.detection
        named = f" --positive {shlex.quote(detection.positive.name)}" if detection else ""
        return [*dict.fromkeys(trained), f"crossbias report {folders}{named} -o report.html"]

    def _repr_html_(self) -> str:
        """The tables and the legend, for a notebook."""
        from crossbias.runs.formats import to_html  # which imports this module

        return to_html(self)


def compare(
    runs: Folders,
    *,
    metrics: Sequence[str] | None = None,
    attribute: str | None = None,
    split: str | None = None,
    positive: str | None = None,
) -> Comparison:
    """Compare finished runs of the same data.

    Args:
        runs: Run folders, or the folder of a sweep.
        metrics: Which numbers to compare, keys of ``METRICS``; the five usual accuracies if left
            out.
        attribute: Judge by another attribute than the runs' own bias.
        split: Judge on another split than the usual one, which is ``test``.
        positive: The class to be found: adds its sensitivity, specificity and AUC.

    Raises:
        CrossbiasError: A folder is not a finished run, a file is missing or damaged, the runs
            were judged on different data, or one training is named twice.
    """
    names = checked_metrics(metrics, positive)
    read = read_runs(runs, split=split)
    if positive is not None:
        read = [run.finding(positive) for run in read]
    for run in read:
        check_same_samples(read[0].judged, run.judged)
    rows = rows_of(read, names, attribute)
    baseline = next((row for row in rows if row.runs[0].method == "erm"), rows[0])
    judged_by = attribute or baseline.runs[0].bias
    cells, others = baseline.metrics[0].cells, [row for row in rows if row is not baseline]
    judged = baseline.runs[0].judged
    place = cells.place_of(judged.target, judged.attribute(judged_by))
    known = [name for name in names if value_of(name, baseline.metrics[0]) is not None]
    strata = {name: stratified(name, cells, place) for name in known if name in WEIGHTS}
    confidence = simultaneous(0.95, len(others))
    lost = overall_losses(
        baseline,
        others,
        {name: stratified(name, cells, place) for name in LOSSES},
        confidence,
        _correction(len(others)),
    )
    found = [name for name in names if name in OF_POSITIVE]
    over_methods = variances_over_seeds(rows, [*strata, *found])
    gains = {
        row.label: gains_over(baseline, row, strata, confidence, over_methods)
        | positive_gains_over(baseline, row, found, confidence, over_methods)
        for row in others
    }
    tests = {
        row.label: tests_against(baseline, row, strata)
        | positive_tests_against(baseline, row, found)
        for row in others
    }
    return Comparison(
        metrics=names,
        runs=tuple(read),
        rows=tuple(rows),
        baseline=baseline,
        gains=gains,
        tests=corrected(tests),
        attribute=judged_by,
        notes=(
            *_notes(rows),
            *lost,
            *_advice(baseline, gains),
            *unfinished_notes(_several(runs)),
        ),
    )


def read_runs(folders: Folders, *, split: str | None = None) -> list[FinishedRun]:
    """Read finished runs of the same data, to be judged by the split or else by the usual one."""
    found = runs_by_data(_several(folders))
    paths = [run for runs in found.values() for run in runs]
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


def _several(folders: Folders) -> list[Path]:
    return [Path(each) for each in ([folders] if isinstance(folders, str | Path) else folders)]


def _check_comparable(first: FinishedRun, other: FinishedRun) -> None:
    """Refuse to compare numbers that were measured on different data."""
    facts: dict[str, Callable[[FinishedRun], str | None]] = {
        "data set": lambda run: str(run.config["data"]["name"]),
        "bias attribute": lambda run: run.bias,
        "test split": lambda run: run.split,
        "classes": lambda run: ", ".join(run.test.classes),
        "bias values": lambda run: ", ".join(run.test.biases),
        "content hash of the test split": lambda run: run.hash_of(run.split),
        "number of clusters": lambda run: str(run.test.clusters or "none"),
        "aligned groups, those that go together in training": _aligned_pairs,
    }
    for name, fact in facts.items():
        if fact(first) != fact(other):
            raise CrossbiasError(
                f"{first.path} and {other.path} cannot be compared, they differ in {name}: "
                f"{fact(first)} and {fact(other)}; compare runs of the same data"
            )


def _aligned_pairs(run: FinishedRun) -> str:
    """The aligned groups by name: another association in training gives words another meaning."""
    listed = zip(run.test.classes, run.test.aligned_groups, strict=False)
    return ", ".join(f"({target}, {bias})" for target, biases in listed for bias in biases)


def differences(runs: Sequence[FinishedRun]) -> list[str]:
    """What the runs differ in besides method and seed, which may explain their accuracies."""
    facts: dict[str, Callable[[FinishedRun], Any]] = {
        "the rule by which the model was chosen": lambda run: run.config["selection"],
        "the training data": lambda run: run.hash_of("train"),
        "the network": lambda run: run.config.get("network"),
        "the training settings": lambda run: {**run.config["train"], "seed": None},
        "the version of crossbias": lambda run: (run.config["version"], run.config["commit"]),
        "the version of torch": lambda run: run.config["environment"]["torch"],
        "the version of numpy": lambda run: run.config["environment"].get("numpy"),
    }
    return [name for name, fact in facts.items() if any(fact(run) != fact(runs[0]) for run in runs)]


def _correction(comparisons: int) -> str:
    return f", corrected for {comparisons} comparisons" if comparisons > 1 else ""


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = []
    if found := differences([run for row in rows for run in row.runs]):
        notes.append(
            f"The rows differ in more than method and seed: {', '.join(found)}. "
            f"What looks like an effect of the method may be due to that."
        )
    chosen = [row for row in rows if row.selection != "last"]
    if chosen and chosen[0].runs[0].split == "validation":
        notes.append(
            f"The model of {', '.join(row.label for row in chosen)} was chosen by this validation "
            f"split, so its accuracies here are too high. Judge it on a test split."
        )
    if len({len(row.runs) for row in rows}) > 1:
        notes.append("The rows are over different numbers of seeds.")
    if warning := rows[0].metrics[0].warning:
        notes.append(f"{warning}.")
    mixed = {row.label: row.metrics[0].class_mix_note for row in rows}
    notes += [f"{label}: {note}." for label, note in mixed.items() if note]
    return notes


def _advice(baseline: Row, gains: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    """Where to read on if no method is clearly better than plain training."""
    name, where = ("overall", "over all samples")
    if baseline.metrics[0].associated and any("conflicting" in found for found in gains.values()):
        name, where = ("conflicting", "on conflicting samples")
    compared = [found[name] for found in gains.values() if name in found]
    if baseline.runs[0].method != "erm" or not compared or any(each.low > 0 for each in compared):
        return []
    return [
        f"No method is clearly better than plain training {where}. What to try next: "
        f"docs/it-did-not-help.md of crossbias."
    ]
