"""The rows of a comparison: one for each method and configuration, over its seeds."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.formatting import setting
from crossbias.parameters import unknown
from crossbias.runs.health import in_words
from crossbias.runs.read import FinishedRun
from crossbias.verify import Estimate, Metrics, mean_of_dependent, over_seeds, protocols

METRICS: Final[dict[str, Callable[[Metrics], Estimate | None]]] = {
    "overall": lambda metrics: metrics.overall,
    "aligned": lambda metrics: metrics.aligned,
    "conflicting": lambda metrics: metrics.conflicting,
    "unbiased": lambda metrics: metrics.unbiased,
    "worst_group": lambda metrics: metrics.worst_group and metrics.worst_group.accuracy,
    "class_averaged": lambda metrics: metrics.class_averaged,
    "biased": lambda metrics: (
        metrics.aligned and protocols.biased(metrics.cells, effects=metrics.cell_effects)
    ),
    "calibration": lambda metrics: metrics.calibration,
    "demographic_parity": lambda metrics: metrics.demographic_parity,
    "equalized_odds": lambda metrics: metrics.equalized_odds,
}
"""The numbers that can be compared, by name; None where a run does not have the number."""

OF_POSITIVE: Final[dict[str, Callable[[Metrics], Estimate | None]]] = {
    "sensitivity": lambda metrics: metrics.detection and metrics.detection.overall.sensitivity,
    "specificity": lambda metrics: metrics.detection and metrics.detection.overall.specificity,
    "auc": lambda metrics: metrics.detection and metrics.detection.overall.auc,
    "ppv": lambda metrics: metrics.detection and metrics.detection.overall.ppv,
    "npv": lambda metrics: metrics.detection and metrics.detection.overall.npv,
    "brier": lambda metrics: metrics.detection and metrics.detection.overall.brier,
}
"""Further numbers where a class is named as the positive one."""

NOISY: Final = {
    "worst_group": "the worst group",
    "calibration": "calibration errors",
    "demographic_parity": "gaps",
    "equalized_odds": "gaps",
}
"""Numbers that noise in the test samples makes too low, or too high, in every run; in words."""

USUAL_OF_POSITIVE: Final = ("sensitivity", "specificity", "auc")

USUAL_METRICS: Final = ("overall", "aligned", "conflicting", "unbiased", "worst_group")

_SHOWN: Final = {"auc": "AUC", "ppv": "PPV", "npv": "NPV", "brier": "Brier score"}

_NOT_A_SETTING: Final = (
    *("data hashes", "data shape", "data classes", "data values", "data aligned"),
    "train seed",
)
"""Entries of ``config.json`` that are facts about the data, or differ within a row."""


class Number(NamedTuple):
    """One number of a row.

    For a single run, the limits are over test samples. For several seeds, they are over trainings.
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
    metrics: tuple[Metrics, ...]  # one for each run, with respect to the attribute
    numbers: Mapping[str, Number | None]

    @property
    def supervision(self) -> str:
        """What the method knew about the bias."""
        return str(self.runs[0].config["supervision"])

    @property
    def selection(self) -> str:
        """The rule by which the epoch was chosen."""
        return str(self.runs[0].config["selection"])

    @property
    def health(self) -> list[str]:
        """What went wrong in the trainings, and what to change, one text for each symptom."""
        return in_words([run.health for run in self.runs])

    @property
    def seconds(self) -> float:
        """How long a training took, on average over the runs."""
        return sum(epoch.seconds for run in self.runs for epoch in run.log) / len(self.runs)


def checked_metrics(names: Sequence[str] | None, positive: str | None = None) -> tuple[str, ...]:
    """The metrics asked for, after checking that there are such; else the usual ones.

    The usual ones include those of a positive class where one is named.
    """
    for name in names or ():
        if name in OF_POSITIVE and positive is None:
            raise CrossbiasError(
                f"{name} is about one class; name it: --positive CLASS, or positive= in Python"
            )
        if name not in METRICS | OF_POSITIVE:
            raise unknown("there is no metric", name, METRICS | OF_POSITIVE)
    return tuple(names or (*USUAL_METRICS, *(USUAL_OF_POSITIVE if positive else ())))


def value_of(name: str, metrics: Metrics) -> Estimate | None:
    """One number of a run by its name; None where the run does not have it."""
    return (METRICS | OF_POSITIVE)[name](metrics)


def metric_title(name: str, metrics: Metrics) -> str:
    """A metric as the head of a column names it, with its class or the number of groups."""
    if name == "worst_group" and metrics.worst_group:
        return metrics.worst_of
    if name in OF_POSITIVE and metrics.detection:
        return f"{_SHOWN.get(name, name)} for {metrics.detection.positive.name}"
    return name.replace("_", " ")


def rows_of(
    runs: Sequence[FinishedRun], metrics: Sequence[str], attribute: str | None = None
) -> list[Row]:
    """One row for the runs of each recipe, in the order in which they are named.

    Two runs that agree in everything, including the seed, are refused: counting both would pretend
    to know more. ``attribute`` is another attribute to judge by than the runs' own bias.
    """
    recipes: dict[str, list[FinishedRun]] = {}
    for run in runs:
        same = recipes.setdefault(json.dumps(_recipe(run), sort_keys=True), [])
        for other in same:
            if other.seed == run.seed:
                raise CrossbiasError(
                    f"{other.path} and {run.path} are the same training: everything agrees, seed "
                    f"{run.seed} too; name one of them"
                )
        same.append(run)
    labels = _labels([same[0] for same in recipes.values()])
    return [
        _row(label, same, metrics, attribute)
        for label, same in zip(labels, recipes.values(), strict=True)
    ]


def over_runs(estimates: Sequence[Estimate | None], *, noisy: bool = False) -> Number | None:
    """One number over the runs of a row; None unless every run has it.

    ``noisy`` is for those of ``NOISY``: seeds that agree on a number that is too high, or too low,
    do not make it right. So its interval is also over test samples.
    """
    present = [estimate for estimate in estimates if estimate is not None and estimate.n]
    if len(present) < len(estimates) or not present:
        return None
    if len(present) == 1:
        only = present[0]
        return Number(only.value, only.low, only.high, math.nan, only.n)
    spread = over_seeds([estimate.value for estimate in present])
    low, high = spread.low, spread.high
    # Trainings that agree, or numbers that are off in each: seeds alone say too little.
    if spread.deviation < 1e-9 or noisy:
        samples = mean_of_dependent(present)
        low, high = min(low, samples.low), max(high, samples.high)
        if any(estimate.low == 0 for estimate in present):
            # Lower limits that are cut at 0 have too high a mean; the upper ones have the distance.
            low = max(0.0, min(low, 2 * samples.value - samples.high))
    return Number(spread.mean, low, high, spread.deviation, present[0].n)


def _row(
    label: str, runs: Sequence[FinishedRun], metrics: Sequence[str], attribute: str | None
) -> Row:
    judged = tuple(_metrics_by(run, attribute) for run in runs)
    numbers = {
        name: over_runs([value_of(name, each) for each in judged], noisy=name in NOISY)
        for name in metrics
    }
    return Row(label, tuple(runs), judged, numbers)


def _metrics_by(run: FinishedRun, attribute: str | None) -> Metrics:
    """The metrics a run is judged by, with respect to an attribute; None is its own bias."""
    if attribute in (None, run.bias):
        return run.test
    found = run.test.attributes.get(str(attribute))
    if found is None:
        known = [*filter(None, [run.bias]), *run.test.attributes]
        lacking = f"{run.path} has no metrics by attribute"
        raise unknown(lacking, str(attribute), known, "its attributes are")
    return found


def _recipe(run: FinishedRun) -> dict[str, Any]:
    """Everything that determines a run but its seed, flat: equal recipes are repetitions."""
    found = {name: run.config[name] for name in ("selection", "supervision")}
    for part in ("method", "network", "data", "train"):
        for name, value in (run.config.get(part) or {}).items():
            found[f"{part} {name}"] = value
    for split in ("train", "validation"):
        found[f"{split} data"] = (run.hash_of(split) or "unknown")[:8]
    return {name: value for name, value in found.items() if name not in _NOT_A_SETTING}


def _labels(firsts: Sequence[FinishedRun]) -> list[str]:
    """The method's name, and where several rows share it the settings in which they differ."""
    recipes = [_recipe(run) for run in firsts]
    labels = []
    for run, own in zip(firsts, recipes, strict=True):
        rivals = [r for other, r in zip(firsts, recipes, strict=True) if other.title == run.title]
        keys = {key for rival in rivals for key in rival}
        differing = sorted(key for key in keys if any(r.get(key) != own.get(key) for r in rivals))
        words = ", ".join(f"{key} {setting(own.get(key))}" for key in differing)
        labels.append(f"{run.title} ({words})" if words else run.title)
    # Settings that differ may read the same, such as 1 and "1"; folders never do.
    return [
        f"{label}, {run.path}" if labels.count(label) > 1 else label
        for label, run in zip(labels, firsts, strict=True)
    ]
