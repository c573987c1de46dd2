"""Two classes, one of them positive: ranking, predictive values and probabilities."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.verify.clusters import inflation, typical_size
from crossbias.verify.intervals import NO_SAMPLES, Estimate, lowest_of, wilson_limits

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


def auc(
    scores: Tensor,
    positive: Tensor,
    *,
    cluster: Tensor | None = None,
    weight: Tensor | None = None,
) -> Estimate:
    """The probability that a positive sample has a higher score than a negative one.

    Ties count half. The interval is that of DeLong, DeLong and Clarke-Pearson (1988) on the scale
    of the logit, with half a pair added on both sides, so that it is not empty for a perfect order.

    Args:
        scores: ``(n,)`` higher for samples that are more likely to be positive.
        positive: ``(n,)`` bool.
        cluster: ``(n,)`` int64, which samples belong together, as those of a patient do
            (Obuchowski 1997); None where all are independent.
        weight: ``(n,)`` float, how much each sample counts; None where all count the same.

    Returns:
        The area under the ROC curve; ``NO_SAMPLES`` if one of the classes is missing.

    >>> found = auc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]) > 0)
    >>> found.value, found.n
    (0.75, 4)
    """
    if not positive.any() or positive.all():
        return NO_SAMPLES
    of_high, of_low = (_weights(weight, rows) for rows in (positive, ~positive))
    placed = placements(scores, positive, weight)
    above, below = placed[positive], placed[~positive]
    value = float(of_high @ above / of_high.sum())
    sizes = [float(each.sum() ** 2 / each.square().sum()) for each in (of_high, of_low)]  # Kish's
    # Where no mistake tells how alike the samples of a cluster are, it counts as one.
    worth = [
        size / (1.0 if cluster is None else typical_size(_counts(cluster[rows])))
        for rows, size in zip((positive, ~positive), sizes, strict=True)
    ]
    pairs = worth[0] * worth[1]
    smooth = (value * pairs + 0.5) / (pairs + 1)
    floor = smooth * (1 - smooth)  # of one pair: an order without a mistake is not certain
    influence = torch.empty(len(scores), dtype=torch.float64)
    influence[positive] = of_high * (above - value) / of_high.sum()
    influence[~positive] = of_low * (below - value) / of_low.sum()
    variance = sum(
        _unbiased(size) * float(influence[rows].square().sum())
        for rows, size in zip((positive, ~positive), sizes, strict=True)
    )
    variance = cluster_effect(influence, cluster) * variance + sum(floor / n**2 for n in worth)
    half = _Z * math.sqrt(variance) / (smooth * (1 - smooth))
    center = math.log(smooth / (1 - smooth))
    low_, high_ = (_sigmoid(limit) for limit in (center - half, center + half))
    return Estimate(value, min(low_, value), max(high_, value), len(scores))


def placements(scores: Tensor, positive: Tensor, weight: Tensor | None = None) -> Tensor:
    """How each sample is placed among those of the other class, (n,); ties count half.

    For a positive sample it is the share of the others that have a lower score; for another one,
    the share of the positives that have a higher score. The mean over either class is the AUC. The
    weights are as for ``auc``.

    >>> placements(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]) > 0).tolist()
    [1.0, 0.5, 0.5, 1.0]
    """
    high, low = scores[positive].double(), scores[~positive].double()
    placed = torch.empty(len(scores), dtype=torch.float64)
    of_high, of_low = (_weights(weight, rows) for rows in (positive, ~positive))
    placed[positive] = _shares_below(high, low, of_low)
    placed[~positive] = 1 - _shares_below(low, high, of_high)
    return placed


def predictive_values(
    found: float,
    positives: int,
    cleared: float,
    negatives: int,
    *,
    prevalence: float | None = None,
    effects: tuple[float, float] = (1.0, 1.0),
) -> PredictiveValues:
    """Sensitivity and specificity, and how far answers can be trusted.

    PPV and NPV depend on a ratio of two shares, whose logarithm has limits at the distances of
    the exact limits of each (MOVER; Zou and Donner 2008). The prevalence is taken as known.

    Args:
        found: Number of positive samples that are called positive; need not be whole.
        positives: Number of positive samples.
        cleared: Number of negative samples that are called negative.
        negatives: Number of negative samples.
        prevalence: Share of positives where the model will be used; that of the samples if not
            given, which is right only if they were not collected by class.
        effects: Design effects of clusters among the positive and among the negative samples: so
            many samples say as much as an independent one.

    >>> round(predictive_values(90, 100, 80, 100, prevalence=0.1).ppv.value, 6)
    0.333333
    """
    if prevalence is not None and not 0 < prevalence < 1:
        raise CrossbiasError(f"the prevalence must be between 0 and 1, got {prevalence}")
    rates = _rate(found, positives, effects[0]), _rate(cleared, negatives, effects[1])
    share = positives / max(positives + negatives, 1) if prevalence is None else prevalence
    if not positives or not negatives:
        return PredictiveValues(share, *rates, NO_SAMPLES, NO_SAMPLES)
    hit, miss = (_exact(each, positives, effects[0]) for each in (found, positives - found))
    clear, alarm = (_exact(each, negatives, effects[1]) for each in (cleared, negatives - cleared))
    odds = share / (1 - share)
    return PredictiveValues(
        share, *rates, ppv=_trust(hit, alarm, odds), npv=_trust(clear, miss, 1 / odds)
    )


def brier_score(
    probabilities: Tensor,
    positive: Tensor,
    *,
    cluster: Tensor | None = None,
    weight: Tensor | None = None,
) -> Estimate:
    """The mean squared difference of the probability and what happened: 0 is best, .25 a coin.

    The interval is Student's t over samples on the scale of the logit: most errors are small and a
    few are large, so the mean of few samples is often too low.

    Args:
        probabilities: ``(n,)`` of the positive class.
        positive: ``(n,)`` bool.
        cluster: As for ``auc``.
        weight: As for ``auc``.
    """
    from scipy.special import stdtrit

    errors = (probabilities.double() - positive.double()).square()
    if len(errors) < 2:
        return NO_SAMPLES
    weights = _weights(weight, torch.ones_like(positive, dtype=torch.bool))
    weights = weights / weights.sum()
    value, size = float(weights @ errors), 1 / float(weights.square().sum())
    influence = weights * (errors - value)
    effect = cluster_effect(influence, cluster)
    if not 0 < value < 1:
        return Estimate(value, *wilson_limits(value, size / effect), len(errors))
    variance = effect * _unbiased(size) * float(influence.square().sum())
    half = float(stdtrit(max(size - 1, 1), 0.975)) * math.sqrt(variance) / (value * (1 - value))
    center = math.log(value / (1 - value))
    return Estimate(value, _sigmoid(center - half), _sigmoid(center + half), len(errors))


def calibration_slope(
    probabilities: Tensor,
    positive: Tensor,
    *,
    cluster: Tensor | None = None,
    weight: Tensor | None = None,
) -> Slope | None:
    """Cox's logistic recalibration (1958), by maximum likelihood, with Wald's intervals.

    Args:
        probabilities: ``(n,)`` of the positive class, cut at a millionth and at 1 minus that.
        positive: ``(n,)`` bool.
        cluster: As for ``auc``.
        weight: As for ``auc``.

    Returns:
        Intercept and slope; None where they do not exist: a class is missing, all probabilities
        are equal, or they separate the classes.
    """
    stated = probabilities.double().clamp(1e-6, 1 - 1e-6).logit()
    outcome, each = positive.double(), _weights(weight, torch.ones_like(positive)).double()
    if not (positive.any() and (~positive).any()) or _separated(stated, positive):
        return None
    design = torch.stack([torch.ones_like(stated), stated], 1)  # (n, 2)
    each = each / each.mean()
    weights = torch.tensor([0.0, 1.0], dtype=torch.float64)
    for _ in range(50):  # Newton's method, whose function is concave
        expected = (design @ weights).sigmoid()
        information = design.T @ (design * (each * expected * (1 - expected))[:, None])
        step = torch.linalg.solve(information, design.T @ (each * (outcome - expected)))
        weights = weights + step / max(1.0, float(step.norm()) / 2)  # no step across the world
        if step.norm() < 1e-10:
            break
    inverse = torch.linalg.inv(information)
    influence = (design * (each * (outcome - expected))[:, None]) @ inverse  # (n, 2)
    variance = inverse.diagonal()
    if weight is not None:  # which the information does not know about
        variance = torch.maximum(variance, influence.square().sum(0))
    intercept, slope = (
        _wald(float(weights[part]), float(variance[part]), influence[:, part], cluster)
        for part in (0, 1)
    )
    return Slope(intercept, slope)


def cluster_effect(influence: Tensor, cluster: Tensor | None) -> float:
    """How many times the variance of an estimate grows because samples come in clusters.

    It is ``inflation``, and larger for few clusters by the square of Student's t quantile over the
    normal one.

    Args:
        influence: ``(n,)`` how much each sample moves the estimate, with the sum 0.
        cluster: ``(n,)`` int64; None gives 1.
    """
    from scipy.special import stdtrit

    if cluster is None:
        return 1.0
    size = typical_size(_counts(cluster))
    quantile = float(stdtrit(max(len(cluster) / size - 1, 1), 0.975))
    together = inflation(influence, torch.zeros_like(cluster), cluster)
    return together * (quantile / _Z) ** 2


def _counts(cluster: Tensor) -> Tensor:
    """The number of samples in each cluster."""
    sizes: Tensor = torch.unique(cluster, return_counts=True)[1]
    return sizes


def _separated(stated: Tensor, positive: Tensor) -> bool:
    """Whether a limit parts the classes, be it with ties at the limit, or all values are equal."""
    high, low = stated[positive], stated[~positive]
    return bool(high.min() >= low.max() or high.max() <= low.min())


def _wald(value: float, variance: float, influence: Tensor, cluster: Tensor | None) -> Estimate:
    half = _Z * math.sqrt(variance * cluster_effect(influence, cluster))
    return Estimate(value, value - half, value + half, len(influence))


def _rate(correct: float, total: int, effect: float) -> Estimate:
    """A share with Wilson's interval, at the number of independent samples."""
    if not total:
        return NO_SAMPLES
    return Estimate(correct / total, *wilson_limits(correct / total, total / effect), total)


def _exact(correct: float, total: int, effect: float) -> Estimate:
    """A share with exact limits, at the number of independent samples."""
    return lowest_of([correct / effect], [total / effect])._replace(n=total)


def _shares_below(of: Tensor, others: Tensor, weights: Tensor) -> Tensor:
    """The share of the others, by weight, below each value; ties count half."""
    ordered, order = others.sort()
    below = torch.cat([weights.new_zeros(1), weights[order].cumsum(0)])
    left, right = (torch.searchsorted(ordered, of, right=side) for side in (False, True))
    return (below[left] + below[right]) / (2 * below[-1])


def _weights(weight: Tensor | None, rows: Tensor) -> Tensor:
    """The weights of some samples; 1 where there are none."""
    if weight is None:
        return torch.ones(int(rows.bool().sum()), dtype=torch.float64)
    return weight[rows.bool()].double()


def _unbiased(size: float) -> float:
    """The factor by which a variance from so many samples is too small."""
    return size / (size - 1) if size > 1 + 1e-9 else 0.0


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
