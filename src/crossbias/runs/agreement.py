"""agree: whether stored metrics are those of stored predictions."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from crossbias.types import UNKNOWN
from crossbias.verify import (
    Estimate,
    Metrics,
    Predictions,
    aligned,
    class_averaged,
    conflicting,
    overall,
    unbiased,
    worst_group,
)


def agree(predictions: Predictions, metrics: Metrics | None, bias: str | None) -> bool:
    """Whether the accuracies, computed again from the predictions, are those of the metrics."""
    if metrics is None:
        return False
    try:
        return _all_agree(predictions, metrics, bias)
    except (TypeError, ValueError, OverflowError):  # numbers of samples that are no numbers
        return False


def _all_agree(predictions: Predictions, metrics: Metrics, bias: str | None) -> bool:
    """Whether those by the bias agree, and those by every other attribute."""
    by = {name: each for name, each in metrics.attributes.items() if name in predictions.attributes}
    judged = [(bias if bias in predictions.attributes else None, metrics), *by.items()]
    return all(_fits(predictions, each, name) for name, each in judged) and all(
        _equal(each, predictions, name) for name, each in judged
    )


def _fits(predictions: Predictions, metrics: Metrics, bias: str | None) -> bool:
    """Whether the numbers of classes, samples and values are the same."""
    column = predictions.attribute(bias)
    return (
        tuple(predictions.probabilities.shape) == (metrics.overall.n, len(metrics.classes))
        and lie_within(predictions.target, 0, len(metrics.classes))
        and lie_within(column, UNKNOWN, len(metrics.biases))
    )


def _equal(metrics: Metrics, predictions: Predictions, bias: str | None) -> bool:
    """Whether samples and right answers of every group, and the accuracies, are the same."""
    stored = metrics.cells
    names = {"classes": metrics.classes, "values": metrics.biases}
    found = predictions.cells(bias=bias, alignment=None, **names)
    if not all(
        torch.equal(getattr(stored, part), getattr(found, part))
        for part in ("target", "bias", "total", "correct")
    ):
        return False
    found = replace(found, aligned=stored.aligned)
    pairs: list[tuple[Estimate | None, Estimate]] = [
        (metrics.overall, overall(found)),
        (metrics.class_averaged, class_averaged(found)),
    ]
    if found.labeled:
        worst = metrics.worst_group
        pairs += [
            (metrics.aligned, aligned(found)),
            (metrics.conflicting, conflicting(found)),
            (metrics.unbiased, unbiased(found)),
            (worst and worst.accuracy, worst_group(found).accuracy),
        ]
    return all(one is None or _close(one, two) for one, two in pairs)


def _close(one: Estimate, two: Estimate) -> bool:
    """Whether two accuracies are the same but for rounding, which another machine may do."""
    return one.n == two.n and (not one.n or math.isclose(one.value, two.value, abs_tol=1e-9))


def lie_within(numbers: Tensor, low: int, high: int) -> bool:
    """Whether all numbers are at least ``low`` and less than ``high``."""
    return bool(((numbers >= low) & (numbers < high)).all())
