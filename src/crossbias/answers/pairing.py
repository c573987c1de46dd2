"""Models on the same samples: how much better another model is than the first."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from crossbias.answers.intersections import Attribute
from crossbias.answers.samples import Samples
from crossbias.verify import Estimate, McNemar, holm, mcnemar, paired_difference, simultaneous

MOST_VALUES: Final = 50
"""Attributes with more values than this have no gains by value."""


class Gain(NamedTuple):
    """How much higher a number of one model is than the baseline's, on the same samples."""

    model: str
    number: str  # accuracy, class_averaged, sensitivity or specificity
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
    right: Mapping[str, Tensor], samples: Samples, *, place: int | None
) -> tuple[Gain, ...]:
    """The gains of all models but the first over the first.

    For each number, the intervals hold for all models together with 95% confidence (Bonferroni),
    and p is corrected by Holm's method.

    Args:
        right: For each model, ``(n,)`` bool, whether it is right on each sample.
        samples: The samples.
        place: Number of the positive class; None where none is named.
    """
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
            gain = paired_difference(
                right[first][None], right[model][None], cell=part.cell, weights=part.weights,
                cluster=samples.cluster, confidence=confidence,
            )  # fmt: skip
            if gain.n:
                whole = part.number == "accuracy" and not part.attribute
                test = tests.get(model) if whole else None
                found.append(Gain(model, *part[:3], gain, test))
    return tuple(found)


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
