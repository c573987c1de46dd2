"""A number over several trainings that differ in nothing but the seed."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from crossbias.errors import CrossbiasError


class Spread(NamedTuple):
    """The mean of an accuracy over seeds, how much it varies, and the interval of the mean.

    Of one seed there is no standard deviation and no interval; they are NaN.
    """

    mean: float
    deviation: float  # of a single training: the sample's, divided by seeds - 1
    low: float
    high: float
    seeds: int


def over_seeds(values: Sequence[float], *, confidence: float = 0.95) -> Spread:
    """Mean, standard deviation and Student's t interval of an accuracy over seeds.

    The interval says what the mean of many more trainings on this data would be. It does not
    say what other test samples would give; that is what each run's own interval is about.

    Args:
        values: The accuracy of each training.
        confidence: The coverage asked of the interval, which is cut at 0 and 1.

    >>> spread = over_seeds([0.70, 0.72, 0.77])
    >>> f"{spread.mean:.3f} ± {spread.deviation:.3f} [{spread.low:.3f}, {spread.high:.3f}]"
    '0.730 ± 0.036 [0.640, 0.820]'
    """
    if not values:
        raise CrossbiasError("a mean over seeds needs at least one run, got none")
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Spread(mean, math.nan, math.nan, math.nan, 1)
    deviation = statistics.stdev(values)
    factor = student_quantile((1 + confidence) / 2, len(values) - 1)
    half = factor * deviation / math.sqrt(len(values))
    return Spread(mean, deviation, max(0.0, mean - half), min(1.0, mean + half), len(values))


def student_quantile(probability: float, freedom: int) -> float:
    """Where Student's distribution has this much to its left; ``probability`` above one half.

    >>> round(student_quantile(0.975, 2), 3)
    4.303
    """
    low, high = 0.0, math.pi / 2  # the angle whose tangent is t / sqrt(freedom)
    while (middle := (low + high) / 2) not in (low, high):
        inside = _central_probability(middle, freedom)
        low, high = (middle, high) if (1 + inside) / 2 < probability else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _central_probability(angle: float, freedom: int) -> float:
    """P(|T| < t) for t = tan(angle) sqrt(freedom): Abramowitz & Stegun 26.7.3 and 26.7.4."""
    cosine = math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    if not odd:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + math.sin(angle) * total)
