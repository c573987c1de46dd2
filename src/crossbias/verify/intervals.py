"""Estimates with intervals: a proportion, and means of proportions."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import NormalDist
from typing import Any, Final, NamedTuple


class Estimate(NamedTuple):
    """A number estimated from ``n`` samples, usually a proportion, with the limits of its interval.

    Without samples, ``n`` is 0 and the three numbers are NaN, which JSON files hold as null.
    """

    value: float
    low: float
    high: float
    n: int

    def to_json(self) -> dict[str, float | int | None]:
        """The estimate as a JSON object, null for NaN."""
        if not self.n:
            return {"value": None, "low": None, "high": None, "n": 0}
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Estimate":
        """The estimate that ``to_json`` wrote; other keys of the object are ignored."""
        if not value["n"]:
            return NO_SAMPLES
        return cls(float(value["value"]), float(value["low"]), float(value["high"]), value["n"])


NO_SAMPLES: Final = Estimate(math.nan, math.nan, math.nan, 0)
"""The accuracy of an empty group: not a number, and always this object."""


def wilson(correct: int, total: int, *, confidence: float = 0.95, effect: float = 1.0) -> Estimate:
    """A proportion with Wilson's score interval (1927), which is valid at 0% and 100% too.

    Args:
        correct: Number of right samples.
        total: Number of samples; 0 gives ``NO_SAMPLES``.
        confidence: Coverage of the interval.
        effect: Design effect of clusters: so many samples say as much as an independent one.

    >>> estimate = wilson(8, 10)
    >>> f"{estimate.value:.2f} ({estimate.low:.3f} to {estimate.high:.3f})"
    '0.80 (0.490 to 0.943)'
    """
    if not 0 <= correct <= total:
        raise ValueError(f"correct must lie in 0..{total}, the number of samples, got {correct}")
    if not total:
        return NO_SAMPLES
    limits = wilson_limits(correct / total, total / effect, confidence)
    return Estimate(correct / total, *limits, total)


def lowest_of(
    correct: Sequence[float], total: Sequence[float], *, confidence: float = 0.95
) -> Estimate:
    """The lowest of several proportions, with an interval of the lowest true one.

    The lowest proportion in a sample is lower than the lowest true one: it was picked for being
    low. So every group has Clopper's and Pearson's exact limits, at a confidence at which all of
    them hold together (Bonferroni). The lowest true proportion is then between the lowest lower
    limit and the lowest upper one.

    Args:
        correct: Number of right samples in each group; need not be whole.
        total: Number of samples in each group; groups without samples are left out.
        confidence: Coverage of the interval, whatever the number of groups.

    Returns:
        The lowest proportion with the interval; ``n`` is the number of samples in its group.

    >>> estimate = lowest_of([8, 90], [10, 100])
    >>> f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f}), n = {estimate.n}"
    '0.80 (0.40 to 0.96), n = 10'
    """
    from scipy.special import betaincinv

    groups = [(c, n) for c, n in zip(correct, total, strict=True) if n]
    if not groups:
        return NO_SAMPLES
    tail = (1 - confidence) / 2 / len(groups)
    low = min(float(betaincinv(c, n - c + 1, tail)) if c else 0.0 for c, n in groups)
    high = min(float(betaincinv(c + 1, n - c, 1 - tail)) if c < n else 1.0 for c, n in groups)
    worst, size = min(groups, key=lambda group: group[0] / group[1])
    return Estimate(worst / size, low, max(high, worst / size), round(size))


def mean_of_groups(
    correct: Sequence[float], total: Sequence[float], *, confidence: float = 0.95
) -> Estimate:
    """The unweighted mean of the groups' proportions; groups without samples are left out.

    Its limits are Wilson's, at the effective number of samples: the number at which a single
    proportion of this size varies as much as the mean does. Survey statistics treats weighted
    proportions in this way (Korn & Graubard 1998; Franco et al. 2019). Let q be the groups'
    proportions after adding half a hit and half a miss, so that a group that is all right or all
    wrong still counts as uncertain, and m the number of groups. Then

        n_effective = mean(q) (1 - mean(q)) / (sum q (1 - q) / n / m²).

    For one group, or equal groups with equal proportions, this is Wilson's interval of the pool.
    The sum of squared Wilson distances (MOVER) is not used: with the usual hundred groups its
    skew does not average out, and at 99% accuracy a 95% interval covers only 86%.

    Args:
        correct: Number of right samples in each group; need not be whole.
        total: Number of samples in each group.
        confidence: Coverage of the interval.

    Returns:
        The mean with its interval; ``n`` is the number of samples in all groups.

    >>> estimate = mean_of_groups([50, 0, 10], [50, 0, 20])
    >>> estimate.value, estimate.n, round(estimate.low, 3), round(estimate.high, 3)
    (0.75, 70, 0.628, 0.842)
    """
    groups = [(c, n) for c, n in zip(correct, total, strict=True) if n]
    if not groups:
        return NO_SAMPLES
    value = sum(c / n for c, n in groups) / len(groups)
    smooth = [((c + 0.5) / (n + 1), n) for c, n in groups]
    variance = sum(q * (1 - q) / n for q, n in smooth) / len(groups) ** 2
    mean = sum(q for q, _ in smooth) / len(groups)
    low, high = wilson_limits(value, mean * (1 - mean) / variance, confidence)
    return Estimate(value, low, high, round(sum(n for _, n in groups)))


def mean_of_dependent(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates whose samples may be the same or depend on each other.

    Its limits are the means of their limits: however the estimates depend, the standard deviation
    of their mean is at most the mean of their standard deviations. For independent estimates use
    ``mean_of_groups``, which is narrower. Estimates without samples are left out.

    >>> mean_of_dependent([Estimate(0.5, 0.25, 0.75, 10), Estimate(1.0, 0.75, 1.0, 10), NO_SAMPLES])
    Estimate(value=0.75, low=0.5, high=0.875, n=20)
    """
    present = [estimate for estimate in estimates if estimate.n]
    if not present:
        return NO_SAMPLES
    value, low, high = (
        sum(column) / len(present) for column in list(zip(*present, strict=True))[:3]
    )
    return Estimate(value, low, high, sum(estimate.n for estimate in present))


def wilson_limits(value: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's limits of a proportion in ``n`` samples, which need not be a whole number."""
    z = _normal_quantile((1 + confidence) / 2)  # 1.96 for 95%
    center = (value + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(value * (1 - value) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
    # The limits are exactly 0 or 1 where the proportion is; rounding would miss that.
    return 0.0 if value == 0 else center - half, 1.0 if value == 1 else center + half


def wilson_size(share: Estimate) -> float:
    """The number of independent samples at which a share has its 95% limits, which are Wilson's.

    Without clusters and weights this is the number of samples.

    >>> round(wilson_size(wilson(8, 10)), 6), round(wilson_size(wilson(300, 300, effect=3)), 6)
    (10.0, 100.0)
    """
    half, spread = (share.high - share.low) / 2, share.value * (1 - share.value)
    if half >= 0.5:
        return 0.0
    # With u = z²/n, half² (1 + u)² = spread u + u²/4: a quadratic equation in u.
    linear = spread - 2 * half**2
    root = math.sqrt(linear**2 + (1 - 4 * half**2) * half**2)
    u = 2 * half**2 / (linear + root) if linear > 0 else (root - linear) / (0.5 - 2 * half**2)
    return _normal_quantile(0.975) ** 2 / u


@cache
def _normal_quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)
