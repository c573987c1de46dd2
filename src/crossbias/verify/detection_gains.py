"""How much better one method finds a positive class than another, on the same samples."""

from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

from crossbias.verify.between_runs import (
    SeedVariance,
    linearized_difference,
    paired_difference,
)
from crossbias.verify.intervals import NO_SAMPLES, Estimate
from crossbias.verify.positives import placements


class Calls(NamedTuple):
    """What the trainings of a method say about each sample."""

    called: Tensor  # (runs, n) bool, whether the sample is called positive
    scores: Tensor  # (runs, n) probability of the positive class


def detection_difference(
    name: str,
    first: Calls,
    second: Calls,
    positive: Tensor,
    *,
    cluster: Tensor | None = None,
    confidence: float = 0.95,
    over_methods: SeedVariance | None = None,
) -> Estimate:
    """How much higher a number about the positive class is with the second method.

    Sensitivity, specificity and Brier score are means over samples, see ``paired_difference``. AUC
    (DeLong, DeLong and Clarke-Pearson 1988), PPV and NPV are linearized. PPV and NPV hold at the
    prevalence in the samples.

    Args:
        name: A key of ``GAINS``.
        first: Answers of the first method.
        second: Answers of the second method to the same samples.
        positive: ``(n,)`` bool, the samples of the positive class.
        cluster: As for ``paired_difference``.
        confidence: Coverage of the interval.
        over_methods: As for ``paired_difference``.

    Returns:
        The difference; ``NO_SAMPLES`` where one of the two numbers does not exist.
    """
    if not positive.any() or positive.all():
        return NO_SAMPLES
    return GAINS[name](first, second, positive, _Interval(cluster, confidence, over_methods))


class _Interval(NamedTuple):
    """What an interval takes into account, see ``paired_difference``."""

    cluster: Tensor | None
    confidence: float
    over_methods: SeedVariance | None


_Gain = Callable[[Calls, Calls, Tensor, _Interval], Estimate]


def _share(weights: tuple[float, float]) -> _Gain:
    """Right calls among the samples of a class; the weights are of the other class and of it."""

    def gain(first: Calls, second: Calls, positive: Tensor, interval: _Interval) -> Estimate:
        return paired_difference(
            first.called == positive, second.called == positive, cell=positive.long(),
            weights=torch.tensor(weights), **interval._asdict(),
        )  # fmt: skip

    return gain


def _brier(first: Calls, second: Calls, positive: Tensor, interval: _Interval) -> Estimate:
    errors = [(runs.scores.double() - positive.double()).square() for runs in (first, second)]
    return paired_difference(
        *errors, cell=torch.zeros_like(positive).long(), weights=torch.ones(1),
        **interval._asdict(),
    )  # fmt: skip


def _auc(first: Calls, second: Calls, positive: Tensor, interval: _Interval) -> Estimate:
    placed = [
        torch.stack([placements(scores, positive) for scores in runs.scores])
        for runs in (first, second)
    ]
    areas = [runs[:, positive].mean(1) for runs in placed]
    return _linearized(areas, placed, positive, interval)


def _trust(*, of_positive: bool) -> _Gain:
    """PPV, or NPV: how often a call is right."""

    def gain(first: Calls, second: Calls, positive: Tensor, interval: _Interval) -> Estimate:
        truth = positive if of_positive else ~positive
        calls = [(runs.called if of_positive else ~runs.called) for runs in (first, second)]
        if not all(bool(each.any(1).all()) for each in calls):
            return NO_SAMPLES  # a training that never gives this answer
        values = [(each & truth).sum(1) / each.sum(1).double() for each in calls]
        shares = [_influences(each.double(), truth) for each in calls]
        return _linearized(values, shares, positive, interval)

    return gain


def _influences(called: Tensor, truth: Tensor) -> Tensor:
    """What each sample says about the share of right calls at a fixed prevalence, (runs, n).

    With rates s of calls in the class and f in the other, and the share p of the class, the number
    is s p / (s p + f (1 - p)). The result has the derivative by the rate of the sample's own class
    times the sample's distance from that rate.
    """
    p = truth.double().mean()
    s, f = (called[:, rows].mean(1, keepdim=True) for rows in (truth, ~truth))
    calls = s * p + f * (1 - p)
    slopes = p * (1 - p) / calls**2
    return torch.where(truth, slopes * f * (called - s), -slopes * s * (called - f))


def _linearized(
    numbers: list[Tensor], methods: list[Tensor], positive: Tensor, interval: _Interval
) -> Estimate:
    cell, cluster = positive.long(), interval.cluster
    if cluster is not None:
        cluster = torch.unique(cluster, return_inverse=True)[1]
    return linearized_difference(
        numbers, methods, cell=cell, each=1 / torch.bincount(cell).double()[cell],
        **interval._replace(cluster=cluster)._asdict(),
    )  # fmt: skip


GAINS: Final[dict[str, _Gain]] = {
    "sensitivity": _share((0.0, 1.0)),
    "specificity": _share((1.0, 0.0)),
    "auc": _auc,
    "ppv": _trust(of_positive=True),
    "npv": _trust(of_positive=False),
    "brier": _brier,
}
"""The numbers about a positive class that are compared between methods."""
