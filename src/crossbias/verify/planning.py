"""How many samples and seeds a question needs, before anything is collected or trained."""

import math
from statistics import NormalDist

from crossbias.errors import CrossbiasError
from crossbias.verify.intervals import wilson_limits

_MOST_SEEDS = 10_000


def half_width(accuracy: float, samples: int) -> float:
    """Half the width of the 95% interval of an accuracy, in a group of so many samples.

    >>> round(half_width(0.8, 60), 3)
    0.1
    """
    _check(accuracy=accuracy)
    low, high = wilson_limits(accuracy, samples)
    return (high - low) / 2


def samples_for_accuracy(accuracy: float, *, half: float) -> int:
    """How many samples a group needs, so that its accuracy is known to within ``half``.

    >>> samples_for_accuracy(0.8, half=0.05)
    245
    """
    _check(accuracy=accuracy, half=half)
    too_few, enough = 0, 1
    while half_width(accuracy, enough) > half:
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        narrow = half_width(accuracy, middle) <= half
        too_few, enough = (too_few, middle) if narrow else (middle, enough)
    return enough


def samples_for_gain(gain: float, *, differing: float, power: float = 0.8) -> int:
    """How many samples two trained models must be compared on, to see that one is better.

    This is the size for McNemar's test at 5% (Connor 1987).

    Args:
        gain: The difference of the accuracies.
        differing: Share of samples that only one of the two answers correctly; at least the gain.
            Two trainings of your own tell it.
        power: Probability of seeing the difference.

    >>> samples_for_gain(0.05, differing=0.2)
    626
    """
    _check(gain=gain, differing=differing, power=power)
    if differing < gain:
        raise CrossbiasError(
            f"two models with a gain of {gain} differ in at least as many samples, got {differing}"
        )
    spread = _z(0.975) * math.sqrt(differing) + _z(power) * math.sqrt(differing - gain**2)
    return math.ceil((spread / gain) ** 2)


def gain_seen(samples: int, *, differing: float, power: float = 0.8) -> float | None:
    """The smallest gain that so many samples show with this power; None if even the largest is not.

    >>> round(gain_seen(626, differing=0.2), 3)
    0.05
    """
    low, high = 0.0, differing
    if samples < 1 or samples_for_gain(high, differing=differing, power=power) > samples:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        enough = samples_for_gain(middle, differing=differing, power=power) <= samples
        low, high = (low, middle) if enough else (middle, high)
    return high


def seeds_for_gain(gain: float, *, deviation: float, power: float = 0.8) -> int:
    """How many seeds each of two methods needs, to see that one is better in the mean.

    For Welch's t test of two groups at 5%, which is that of ``paired_difference`` with test samples
    without end; at least 2.

    Args:
        gain: The difference of the mean accuracies.
        deviation: Standard deviation of an accuracy over seeds; a few trainings tell it.
        power: Probability of seeing the difference.

    >>> seeds_for_gain(0.05, deviation=0.015), seeds_for_gain(0.01, deviation=0.015)
    (4, 37)
    """
    _check(gain=gain, deviation=deviation, power=power)
    # Fewer than a test with known deviations needs are never enough.
    start = math.floor(2 * ((_z(0.975) + _z(power)) * deviation / gain) ** 2)
    for seeds in range(max(2, start), _MOST_SEEDS):
        if _power_of_welch(gain / deviation, seeds) >= power:
            return seeds
    raise CrossbiasError(f"a gain of {gain} is too small to see with {_MOST_SEEDS} seeds")


def _power_of_welch(effect: float, seeds: int) -> float:
    """The probability that Welch's test sees a gain of so many standard deviations.

    With as many seeds of both methods, Welch's statistic is Student's. Only its degrees of freedom
    vary, with the share f of the first variance in the sum of both: (seeds - 1) / (f² + (1 - f)²).
    The share has a beta distribution and is independent of the statistic.
    """
    import numpy as np
    from scipy.stats import beta, nct, t

    half = (seeds - 1) / 2
    share = beta.ppf((np.arange(200) + 0.5) / 200, half, half)
    limits = t.ppf(0.975, (seeds - 1) / (share**2 + (1 - share) ** 2))
    seen = nct.sf(limits, 2 * (seeds - 1), effect * math.sqrt(seeds / 2))
    return float(np.mean(seen))


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < 1:
            raise CrossbiasError(f"{name} must be between 0 and 1, got {value}; write 5% as .05")


def _z(probability: float) -> float:
    return NormalDist().inv_cdf(probability)
