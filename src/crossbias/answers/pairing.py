"""Models on the same samples: how much better another model is than the first."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from crossbias.answers.intersections import Attribute
from crossbias.answers.samples import Samples
from crossbias.verify import Estimate, McNemar, holm, mcnemar, paired_difference, simultaneous
from crossbias.verify.clusters import inflation
from crossbias.verify.detection_gains import Calls, detection_difference
from crossbias.verify.intervals import NO_SAMPLES

MOST_VALUES: Final = 50
"""Attributes with more values than this have no gains by value."""


class Gain(NamedTuple):
    """How much higher a number of one model is than the baseline's, on the same samples."""

    model: str
    number: str  # accuracy, class_averaged, sensitivity, specificity or auc
    attribute: Attribute  # empty for all samples
    value: str  # of the attribute
    gain: Estimate
    test: McNemar | None  # of the accuracy over all samples; None with clusters or weights


class _Averaged(NamedTuple):
    """Samples over which a number is a mean, as cells and their weights."""

    number: str
    attribute: Attribute
    value: str
    cell: Tensor  # (n,)
    weights: Tensor  # (cells,)


def gains_over_first(
    answers: Mapping[str, Tensor], samples: Samples, *, place: int | None
) -> tuple[Gain, ...]:
    """The gains of all models but the first over the first.

    For each number, the intervals hold for all models together with 95% confidence (Bonferroni),
    and p is corrected by Holm's method.

    Args:
        answers: For each model, ``(n,)`` the class that it gives each sample.
        samples: The samples.
        place: Number of the positive class; None where none is named.
    """
    right = {name: given == samples.target for name, given in answers.items()}
    first, *others = right
    if not others:
        return ()
    parts = _parts(samples, place)
    independent = samples.cluster is None and samples.weight is None
    tests = _tests(right[first], {n: right[n] for n in others}) if independent else {}
    confidence = simultaneous(0.95, len(others))
    found = []
    for model in others:
        for part in parts:
            gain = _difference(right[first], right[model], part, samples, confidence)
            if gain.n:
                whole = part.number == "accuracy" and not part.attribute
                test = tests.get(model) if whole else None
                found.append(Gain(model, *part[:3], gain, test))
        if place is not None:
            found += _gains_in_auc(first, model, answers, samples, place, confidence)
    return tuple(found)


def _gains_in_auc(
    first: str,
    model: str,
    answers: Mapping[str, Tensor],
    samples: Samples,
    place: int,
    confidence: float,
) -> list[Gain]:
    """The gain in AUC (DeLong, DeLong and Clarke-Pearson 1988); none without probabilities.

    There is none with weights, for which its variance is not known here.
    """
    calls = []
    for name in (first, model):
        probabilities = samples.models[name].probabilities
        if probabilities is None or samples.weight is not None:
            return []
        calls.append(Calls((answers[name] == place)[None], probabilities[None, :, place]))
    gain = detection_difference(
        "auc",
        calls[0],
        calls[1],
        samples.target == place,
        cluster=samples.cluster,
        confidence=confidence,
    )
    return [Gain(model, "auc", (), "", gain, None)] if gain.n else []


def _difference(
    first: Tensor, second: Tensor, part: _Averaged, samples: Samples, confidence: float
) -> Estimate:
    if samples.weight is not None:
        return weighted_difference(
            second.double() - first.double(), part.cell, part.weights, samples.weight,
            cluster=samples.cluster, confidence=confidence,
        )  # fmt: skip
    return paired_difference(
        first[None], second[None], cell=part.cell, weights=part.weights, cluster=samples.cluster,
        confidence=confidence,
    )  # fmt: skip


def weighted_difference(
    gained: Tensor,
    cell: Tensor,
    weights: Tensor,
    weight: Tensor,
    *,
    cluster: Tensor | None,
    confidence: float,
) -> Estimate:
    """The weighted mean of what samples gain, by linearization, with Student's t limits.

    Args:
        gained: ``(n,)`` 1 where only the second model is right, -1 where only the first is, or 0.
        cell: ``(n,)`` int64, the cell of each sample.
        weights: ``(cells,)`` weight of each cell.
        weight: ``(n,)`` weight of each sample within its cell.
        cluster: ``(n,)`` or None.
        confidence: Coverage of the interval.
    """
    from scipy.special import stdtrit

    chosen = weights[cell] != 0
    if not chosen.any():
        return NO_SAMPLES
    gained, weight = gained[chosen], weight[chosen].double()
    place = torch.unique(cell[chosen], return_inverse=True)[1]
    sums = torch.bincount(place, weights=weight)
    each = weights[cell[chosen]].double() * weight / sums[place]
    means = torch.bincount(place, weights=weight * gained) / sums
    influence = each * (gained - means[place])
    size = float(each.sum() ** 2 / each.square().sum())  # Kish's number of samples
    # Half a sample for each model: those that agree everywhere are not known to be equal.
    variance = float(influence.square().sum()) + float(each.sum()) ** 2 / (size * (size + 2))
    freedom = max(size - 1, 1.0)
    if cluster is not None:
        variance *= inflation(influence, place, cluster[chosen])
        freedom = max(len(torch.unique(cluster[chosen])) - 1, 1)
    value = float(each @ gained)
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(variance)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), len(gained))


def _parts(samples: Samples, place: int | None) -> list[_Averaged]:
    target, classes = samples.target, len(samples.classes)
    everything, present = torch.zeros_like(target), torch.bincount(target, minlength=classes) > 0
    parts = [
        _Averaged("accuracy", (), "", everything, torch.ones(1)),
        _Averaged("class_averaged", (), "", target, present / present.sum()),
    ]
    if place is not None:
        positive, rates = (target == place).long(), torch.eye(2)
        parts.append(_Averaged("sensitivity", (), "", positive, rates[1]))
        parts.append(_Averaged("specificity", (), "", positive, rates[0]))
    for attribute, column in samples.attributes.items():
        if len(column.values) > MOST_VALUES:
            continue
        # Unknown values, -1, become the last cell, which has no weight.
        cell = column.numbers.remainder(len(column.values) + 1)
        one_each = torch.eye(len(column.values), len(column.values) + 1)
        parts += [
            _Averaged("accuracy", attribute, value, cell, weights)
            for value, weights in zip(column.values, one_each, strict=True)
        ]
    return parts


def _tests(first: Tensor, others: Mapping[str, Tensor]) -> dict[str, McNemar]:
    """McNemar's test of each other model, with p corrected for their number."""
    found = {name: mcnemar(first, right) for name, right in others.items()}
    corrected: Sequence[float] = holm([test.p for test in found.values()])
    pairs = zip(found.items(), corrected, strict=True)
    return {name: test._replace(p=p) for (name, test), p in pairs}
