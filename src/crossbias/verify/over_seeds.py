"""The mean of a number over several trainings that differ only in the seed."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from crossbias.errors import CrossbiasError


class Spread(NamedTuple):
    """The mean of an accuracy over seeds, how much it varies, and the interval of the mean.

    With one seed there is no standard deviation and no interval; they are NaN.
    """

    mean: float
    deviation: float  # the sample's standard deviation, with seeds - 1 in the denominator
    low: float
    high: float
    seeds: int


def over_seeds(values: Sequence[float], *, confidence: float = 0.95) -> Spread:
    """Mean, standard deviation and Student's t interval of an accuracy over seeds.

    The interval is about the mean of many more trainings on this data. The interval of each run
    is about other test samples.

    Args:
        values: The accuracy of each training.
        confidence: Coverage of the interval, which is cut at 0 and 1.

    >>> spread = over_seeds([0.70, 0.72, 0.77])
    >>> f"{spread.mean:.3f} ± {spread.deviation:.3f} [{spread.low:.3f}, {spread.high:.3f}]"
    '0.730 ± 0.036 [0.640, 0.820]'
    """
    from scipy.special import stdtrit

    if not values:
        raise CrossbiasError("a mean over seeds needs at least one run, got none")
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Spread(mean, math.nan, math.nan, math.nan, 1)
    deviation = statistics.stdev(values)
    factor = float(stdtrit(len(values) - 1, (1 + confidence) / 2))  # Student's quantile
    half = factor * deviation / math.sqrt(len(values))
    return Spread(mean, deviation, max(0.0, mean - half), min(1.0, mean + half), len(values))
