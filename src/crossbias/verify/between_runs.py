"""Several trainings: their mean over seeds, and how two models differ on the same samples."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.verify.bootstrap import Counts, Draws, generator_of, stratified_mean
from crossbias.verify.intervals import Estimate
from crossbias.verify.predictions import Predictions


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


class McNemar(NamedTuple):
    """The samples on which two models differ, and the exact test of whether that is chance."""

    only_first: int  # samples that only the first model answers correctly
    only_second: int
    p: float  # two-sided


def check_same_samples(first: Predictions, second: Predictions) -> None:
    """Refuse predictions for different samples or in a different order."""
    if not (first.index.equal(second.index) and first.target.equal(second.target)):
        raise CrossbiasError(
            f"these predictions are for different samples ({len(first.target)} and "
            f"{len(second.target)}); compare models on the same split of the same data"
        )


def mcnemar(first: Tensor, second: Tensor) -> McNemar:
    """McNemar's exact test (1947): if models are equal, each difference is the toss of a coin.

    Args:
        first: ``(n,)`` bool, whether the first model is right on each sample.
        second: The same for the second model.

    >>> import torch
    >>> first, second = torch.ones(10) > 0, torch.arange(10) > 5
    >>> mcnemar(first, second)
    McNemar(only_first=6, only_second=0, p=0.03125)
    """
    from scipy.special import bdtr

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    tail = float(bdtr(min(only_first, only_second), only_first + only_second, 0.5))
    return McNemar(only_first, only_second, min(1.0, 2 * tail))


def paired_difference(first: Tensor, second: Tensor, *, cell: Tensor, weights: Tensor) -> Estimate:
    """How much higher a weighted accuracy is with the second model, on the same samples.

        sum over cells c of weights[c] * mean over the samples of c of (second - first)

    The interval comes from the paired, stratified bootstrap: samples are drawn anew within each
    cell, together with both models' answers to them.

    Args:
        first: ``(n,)`` float, how often the first model is right on each sample: 0 or 1, or the
            mean over several trainings.
        second: The same for the second model.
        cell: ``(n,)`` int64, the cell of each sample.
        weights: ``(cells,)`` float, weight of each cell; cells without samples count nothing.

    Returns:
        The difference, between -1 and 1; ``n`` is the number of samples in cells with a weight.
    """
    counts, steps = _tabulated(second.double() - first.double(), cell, len(weights))
    return stratified_mean(counts, steps, weights.double().numpy(), generator_of("paired"))


def _tabulated(difference: Tensor, cell: Tensor, cells: int) -> tuple[Counts, Draws]:
    """How often each difference occurs in each cell, (cells, steps), and the differences."""
    steps, step = np.unique(difference.numpy().round(9), return_inverse=True)
    place = cell.numpy() * len(steps) + step.reshape(-1)
    counts = np.bincount(place, minlength=cells * len(steps)).reshape(cells, len(steps))
    return counts, steps
