"""Two classes, one of them positive: ranking, predictive values, probabilities, and a threshold."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.verify.intervals import NO_SAMPLES, Estimate, lowest_of, wilson

_Z = 1.959963984540054  # the normal quantile of a 95% interval


class PredictiveValues(NamedTuple):
    """How far an answer can be trusted, in a population where the positive class is this frequent.

    PPV is the share of positive answers that are right, NPV that of negative ones.
    """

    prevalence: float
    sensitivity: Estimate
    specificity: Estimate
    ppv: Estimate
    npv: Estimate


class Slope(NamedTuple):
    """How true probabilities depend on stated ones: logit(true) = intercept + slope logit(stated).

    A slope below 1 says that the model is too sure; an intercept above 0, that positives are more
    frequent than it says.
    """

    intercept: Estimate
    slope: Estimate


def auc(scores: Tensor, positive: Tensor) -> Estimate:
    """The probability that a positive sample has a higher score than a negative one.

    Ties count half. The interval is that of DeLong, DeLong and Clarke-Pearson (1988) on the scale
    of the logit, with half a pair added on both sides, so that it is not empty for a perfect order.

    Args:
        scores: ``(n,)`` higher for samples that are more likely to be positive.
        positive: ``(n,)`` bool.

    Returns:
        The area under the ROC curve; ``NO_SAMPLES`` if one of the classes is missing.

    >>> found = auc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]) > 0)
    >>> found.value, found.n
    (0.75, 4)
    """
    high, low = scores[positive].double(), scores[~positive].double()
    if not len(high) or not len(low):
        return NO_SAMPLES
    # The share of negatives below each positive, and of positives above each negative.
    above, below = _shares_below(high, low), 1 - _shares_below(low, high)
    value = float(above.mean())
    pairs = len(high) * len(low)
    smooth = (value * pairs + 0.5) / (pairs + 1)
    floor = smooth * (1 - smooth)  # of one pair: an order without a mistake is not certain
    variance = (_variance(above) + floor / len(high)) / len(high) + (
        _variance(below) + floor / len(low)
    ) / len(low)
    half = _Z * math.sqrt(variance) / (smooth * (1 - smooth))
    center = math.log(smooth / (1 - smooth))
    low_, high_ = (_sigmoid(limit) for limit in (center - half, center + half))
    return Estimate(value, min(low_, value), max(high_, value), len(scores))


def predictive_values(
    found: int, positives: int, cleared: int, negatives: int, *, prevalence: float | None = None
) -> PredictiveValues:
    """Sensitivity and specificity, and how far answers can be trusted.

    PPV and NPV depend on a ratio of two shares, whose logarithm has limits at the distances of
    the exact limits of each (MOVER; Zou and Donner 2008). The prevalence is taken as known.

    Args:
        found: Number of positive samples that are called positive.
        positives: Number of positive samples.
        cleared: Number of negative samples that are called negative.
        negatives: Number of negative samples.
        prevalence: Share of positives where the model will be used; that of the samples if not
            given, which is right only if they were not collected by class.

    >>> round(predictive_values(90, 100, 80, 100, prevalence=0.1).ppv.value, 6)
    0.333333
    """
    if not positives or not negatives:
        share = positives / max(positives + negatives, 1)
        parts = wilson(found, positives), wilson(cleared, negatives)
        return PredictiveValues(share, *parts, NO_SAMPLES, NO_SAMPLES)
    share = positives / (positives + negatives) if prevalence is None else prevalence
    if not 0 < share < 1:
        raise CrossbiasError(f"the prevalence must be between 0 and 1, got {share}")
    hit, miss = (lowest_of([each], [positives]) for each in (found, positives - found))
    clear, alarm = (lowest_of([each], [negatives]) for each in (cleared, negatives - cleared))
    odds = share / (1 - share)
    return PredictiveValues(
        share,
        wilson(found, positives),
        wilson(cleared, negatives),
        ppv=_trust(hit, alarm, odds),
        npv=_trust(clear, miss, 1 / odds),
    )


def brier_score(probabilities: Tensor, positive: Tensor) -> Estimate:
    """The mean squared difference of the probability and what happened: 0 is best, .25 a coin.

    The interval is Student's t over samples, cut at 0 and 1.

    Args:
        probabilities: ``(n,)`` of the positive class.
        positive: ``(n,)`` bool.
    """
    from scipy.special import stdtrit

    errors = (probabilities.double() - positive.double()).square()
    if len(errors) < 2:
        return NO_SAMPLES
    value = float(errors.mean())
    quantile = float(stdtrit(len(errors) - 1, 0.975))
    half = quantile * math.sqrt(_variance(errors) / len(errors))
    return Estimate(value, max(0.0, value - half), min(1.0, value + half), len(errors))


def calibration_slope(probabilities: Tensor, positive: Tensor) -> Slope | None:
    """Cox's logistic recalibration (1958), by maximum likelihood, with Wald's intervals.

    Args:
        probabilities: ``(n,)`` of the positive class.
        positive: ``(n,)`` bool.

    Returns:
        Intercept and slope; None where they do not exist: a class is missing, all probabilities
        are equal, or they separate the classes.
    """
    stated = probabilities.double().clamp(1e-6, 1 - 1e-6).logit()
    outcome = positive.double()
    ordered = float(auc(stated, positive).value) if positive.any() and (~positive).any() else 1.0
    if ordered in (0.0, 1.0) or stated.min() == stated.max():
        return None
    design = torch.stack([torch.ones_like(stated), stated], 1)  # (n, 2)
    weights = torch.tensor([0.0, 1.0], dtype=torch.float64)
    for _ in range(50):  # Newton's method, whose function is concave
        expected = (design @ weights).sigmoid()
        information = design.T @ (design * (expected * (1 - expected))[:, None])
        step = torch.linalg.solve(information, design.T @ (outcome - expected))
        weights = weights + step / max(1.0, float(step.norm()) / 2)  # no step across the world
        if step.norm() < 1e-10:
            break
    errors = torch.linalg.inv(information).diagonal().sqrt()
    intercept, slope = (
        Estimate(value, value - _Z * error, value + _Z * error, len(outcome))
        for value, error in zip(weights.tolist(), errors.tolist(), strict=True)
    )
    return Slope(intercept, slope)


def threshold_for(probabilities: Tensor, positive: Tensor, *, sensitivity: float) -> float:
    """The highest threshold that finds at least this share of the positive samples.

    Choose it on validation data and judge it on test data: on the data it was chosen on, it looks
    better than it is.

    Args:
        probabilities: ``(n,)`` of the positive class.
        positive: ``(n,)`` bool.
        sensitivity: Share of the positive samples to be found, in (0, 1].

    >>> threshold_for(torch.tensor([0.75, 0.2, 0.5]), torch.tensor([1, 0, 1]) > 0, sensitivity=0.5)
    0.75
    """
    if not 0 < sensitivity <= 1:
        raise CrossbiasError(f"sensitivity must be in (0, 1], got {sensitivity}")
    if not positive.any():
        raise CrossbiasError("a threshold needs positive samples, and there are none")
    ranked = probabilities[positive].double().sort(descending=True).values
    needed = math.ceil(sensitivity * len(ranked) - 1e-9)
    return float(ranked[needed - 1])


def _shares_below(of: Tensor, others: Tensor) -> Tensor:
    """The share of the others below each value, ties half."""
    ordered = others.sort().values
    left, right = (torch.searchsorted(ordered, of, right=side) for side in (False, True))
    return (left + right).double() / (2 * len(others))


def _variance(values: Tensor) -> float:
    return float(values.var()) if len(values) > 1 else 0.0


def _trust(right: Estimate, wrong: Estimate, odds: float) -> Estimate:
    """The probability that an answer is right, from how often each class is given it."""
    if not right.value and not wrong.value:
        return NO_SAMPLES  # the answer was never given
    value = right.value * odds / (right.value * odds + wrong.value)
    (one, *of_right), (other, *of_wrong) = map(_logarithms, (right, wrong))
    center = one - other + math.log(odds)
    down = math.hypot(one - of_right[0], of_wrong[1] - other)
    up = math.hypot(of_right[1] - one, other - of_wrong[0])
    low, high = (_sigmoid(limit) for limit in (center - down, center + up))
    return Estimate(value, min(low, value), max(high, value), right.n + wrong.n)


def _logarithms(share: Estimate) -> tuple[float, float, float]:
    """Of a share with half a hit and half a miss added, and of its limits."""
    smooth = (share.value * share.n + 0.5) / (share.n + 1)
    return math.log(smooth), math.log(share.low) if share.low else -math.inf, math.log(share.high)


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
