"""Numbers for each value of an attribute, such as each hospital, and the gaps between values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from torch import Tensor

from crossbias.data.own.table import EncodedColumn
from crossbias.verify import Estimate, Metrics
from crossbias.verify.bootstrap import REPLICATES, Draws, deviations, generator_of, within
from crossbias.verify.clusters import shares_by
from crossbias.verify.detection import DetectionRates, place_of
from crossbias.verify.intervals import NO_SAMPLES, wilson_size
from crossbias.verify.metrics import MOST_VALUES

SHARES: Final = ("accuracy", "selection_rate", "sensitivity", "specificity")
"""Numbers that are a share of samples; ``selection_rate`` is that of samples called positive."""

GAPS: Final = (*SHARES, "auc")
"""Numbers whose largest difference between two values is reported."""

_RATES: Final[Mapping[str, Callable[[DetectionRates], Estimate | None]]] = {
    "sensitivity": lambda rates: rates.sensitivity,
    "specificity": lambda rates: rates.specificity,
    "ppv": lambda rates: rates.ppv,
    "npv": lambda rates: rates.npv,
    "auc": lambda rates: rates.auc,
    "brier": lambda rates: rates.brier,
    "slope": lambda rates: rates.slope,
}

_Z = 1.959963984540054  # the normal quantile of a 95% interval


class ValueNumbers(NamedTuple):
    """The numbers of the samples with one value of an attribute."""

    value: str
    n: int
    numbers: Mapping[str, Estimate]  # by name; one that does not exist is left out


def rates_by_name(rates: DetectionRates) -> dict[str, Estimate]:
    """The rates that exist, by name."""
    found = {name: read(rates) for name, read in _RATES.items()}
    return {name: number for name, number in found.items() if number is not None and number.n}


def numbers_by_value(
    metrics: Metrics,
    column: EncodedColumn,
    *,
    target: Tensor,
    answers: Tensor,
    cluster: Tensor | None,
    weight: Tensor | None,
) -> tuple[ValueNumbers, ...]:
    """The numbers of each value that has samples, in the order of the values.

    Args:
        metrics: The metrics with respect to the attribute.
        column: The attribute.
        target: ``(n,)`` class numbers.
        answers: ``(n,)`` predicted class numbers.
        cluster: ``(n,)`` or None.
        weight: ``(n,)`` or None.
    """
    size, known = len(column.values), {"cluster": cluster, "weight": weight}
    shares = {"accuracy": shares_by(answers == target, column.numbers, size, **known)}
    rates: Mapping[str, DetectionRates] = {}
    if metrics.detection is not None:
        place = place_of(metrics.detection.positive.name, metrics.classes)
        shares["selection_rate"] = shares_by(answers == place, column.numbers, size, **known)
        rates = metrics.detection.by_bias
    calibration = metrics.bias_calibration or (NO_SAMPLES,) * size
    found = []
    for number, value in enumerate(column.values):
        numbers = {name: each[number] for name, each in shares.items()}
        numbers |= rates_by_name(rates[value]) if value in rates else {}
        numbers |= {"calibration": calibration[number]}
        n = numbers["accuracy"].n
        if n:
            present = {name: each for name, each in numbers.items() if each.n}
            found.append(ValueNumbers(value, n, present))
    return tuple(found)


def gaps_between(values: Sequence[ValueNumbers]) -> dict[str, Estimate]:
    """For each number, the largest difference between two values, with its interval.

    The interval is that of ``bootstrap.within``. There are no gaps where there are more than
    ``MOST_VALUES`` values: the largest of so many differences is noise.

    Args:
        values: The numbers of each value.
    """
    if not 1 < len(values) <= MOST_VALUES:
        return {}
    found = {}
    for name in GAPS:
        present = [each.numbers[name] for each in values if name in each.numbers]
        if len(present) > 1:
            found[name] = gap_of(present, name)
    return found


def gap_of(numbers: Sequence[Estimate], name: str) -> Estimate:
    """The largest difference between some numbers of separate samples, with its interval.

    Each number is resampled with as many independent samples as its own interval stands for, which
    are fewer than its samples where these come in clusters or have weights.

    >>> found = gap_of([Estimate(0.9, 0.85, 0.934, 200), Estimate(0.7, 0.633, 0.759, 200)], "")
    >>> round(found.value, 3), found.low < 0.15, found.high > 0.25, found.n
    (0.2, True, True, 400)
    """
    points = [number.value for number in numbers]
    distances = np.ptp(_deviations(numbers, name), axis=1)
    return within(max(points) - min(points), distances, sum(number.n for number in numbers))


def _deviations(numbers: Sequence[Estimate], name: str) -> Draws:
    """How far resampled splits are from the numbers of the split, (REPLICATES, numbers)."""
    generator = generator_of("gap", name)
    if name == "auc":  # no share: normal, with the standard error of its interval
        errors = np.array([(number.high - number.low) / (2 * _Z) for number in numbers])
        drawn: Draws = generator.normal(size=(REPLICATES, len(numbers))) * errors
        return drawn
    rates = np.array([number.value for number in numbers])
    sizes = np.array([wilson_size(number) for number in numbers])
    counts = np.stack([sizes * rates, sizes * (1 - rates)], 1)
    shares: Draws = deviations(counts, generator)[:, :, 0]
    return shares


def within_class(metrics: Metrics, target: str) -> Estimate:
    """The gap between the accuracies of the values within one class."""
    found = [group.accuracy for group in metrics.groups if group.target == target]
    present = [accuracy for accuracy in found if accuracy.n]
    if len(present) < 2:
        return NO_SAMPLES
    return gap_of(present, f"accuracy of {target}")
