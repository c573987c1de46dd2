"""Several trainings: their mean over seeds, and how two models differ on the same samples."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.verify.clusters import inflation
from crossbias.verify.intervals import NO_SAMPLES, Estimate
from crossbias.verify.predictions import Predictions

_PRIOR = 2  # samples that all cells together lend to each


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


class SeedVariance(NamedTuple):
    """How much a number varies from training to training, over the seeds of several methods."""

    variance: float
    freedom: int  # degrees of freedom of its estimate


def pooled_over_seeds(methods: Sequence[Sequence[float]]) -> SeedVariance | None:
    """The variance over seeds of several methods together; None where each has a single seed.

    Args:
        methods: For each method, the number of each of its trainings.

    >>> found = pooled_over_seeds([[0.70, 0.74], [0.80, 0.80, 0.83], [0.9]])
    >>> round(found.variance, 6), found.freedom
    (0.000467, 3)
    """
    several = [values for values in methods if len(values) > 1]
    if not several:
        return None
    freedom = sum(len(values) - 1 for values in several)
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in several)
    return SeedVariance(squares / freedom, freedom)


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


def paired_difference(
    first: Tensor,
    second: Tensor,
    *,
    cell: Tensor,
    weights: Tensor,
    cluster: Tensor | None = None,
    confidence: float = 0.95,
    over_methods: SeedVariance | None = None,
) -> Estimate:
    """How much higher a weighted accuracy is with the second method, on the same samples.

        sum over cells c of weights[c] * mean over the samples of c of (second - first)

    With several trainings of both, the interval is about the methods: it says where the difference
    would be with many more trainings and test samples. Its variance is that over trainings plus
    that over samples, from which the part that is due to trainings is taken away, because it is in
    both. The limits are those of Student's t at the degrees of freedom of Welch and Satterthwaite.

    With one training of either, nothing is known about the variance of its training. The interval
    is then about these trained models and other samples.

    Args:
        first: ``(runs, n)`` bool, whether each training of the first method is right on a sample;
            or float, a number of each sample.
        second: ``(runs', n)`` bool, the same for the second method.
        cell: ``(n,)`` int64, the cell of each sample.
        weights: ``(cells,)`` float, weight of each cell; cells without samples count nothing.
        cluster: ``(n,)`` int64, equal for samples that belong together. The variance over samples
            is then that over clusters.
        confidence: Coverage of the interval.
        over_methods: The variance over seeds of this and further methods. Among several gains of
            few seeds each, some trainings agree by chance. The interval is then at least as wide as
            it is with this variance for both methods.

    Returns:
        The difference, between -1 and 1; ``n`` is the number of samples in cells with a weight.
    """
    sizes = torch.bincount(cell, minlength=len(weights))
    used = (weights != 0) & (sizes > 0)
    chosen = used[cell]
    if not chosen.any():
        return NO_SAMPLES
    cell = used.cumsum(0)[cell[chosen]] - 1
    methods = [runs[:, chosen].double() for runs in (first, second)]
    each = (weights[used].double() / sizes[used])[cell]  # weight of one sample, (n,)
    cluster = None if cluster is None else torch.unique(cluster[chosen], return_inverse=True)[1]
    return linearized_difference(
        [runs @ each for runs in methods], methods, cell=cell, each=each, cluster=cluster,
        confidence=confidence, answers=not first.is_floating_point(), over_methods=over_methods,
    )  # fmt: skip


def gap_within_classes(
    right: Tensor, target: Tensor, aligned: Tensor, *, cluster: Tensor | None = None
) -> Estimate:
    """How much higher the accuracy is on aligned than on conflicting samples of the same class.

    The mean over classes, each counting by its conflicting samples. Without regard to classes, a
    model that finds one class hard would seem to follow a bias that is more often aligned in the
    others (Simpson's paradox). Classes that lack one of the two kinds are left out. The interval is
    that of ``paired_difference``: with several trainings it is about the method.

    Args:
        right: ``(runs, n)`` bool, whether each training is right on a sample.
        target: ``(n,)`` class numbers.
        aligned: ``(n,)`` bool.
        cluster: As for ``paired_difference``.

    Returns:
        The difference, between -1 and 1; ``NO_SAMPLES`` if no class has samples of both kinds.
    """
    classes = int(target.max()) + 1 if len(target) else 1
    cell = target + classes * (~aligned).long()
    with_bias, against = torch.bincount(cell, minlength=2 * classes).view(2, classes)
    share = against.double() * (with_bias > 0)
    share = share / share.sum().clamp(min=1)
    return paired_difference(
        torch.zeros_like(right), right, cell=cell, weights=torch.cat([share, -share]),
        cluster=cluster,
    )  # fmt: skip


def linearized_difference(
    numbers: Sequence[Tensor],
    methods: Sequence[Tensor],
    *,
    cell: Tensor,
    each: Tensor,
    cluster: Tensor | None = None,
    confidence: float = 0.95,
    answers: bool = False,
    over_methods: SeedVariance | None = None,
) -> Estimate:
    """How much higher any number is with the second of two methods, on the same samples.

    Near the truth, a number such as the AUC is a sum over samples plus a constant. The variance
    over samples is that of the sum; the rest is as for ``paired_difference``.

    Args:
        numbers: For each of both methods, ``(runs,)`` the number of each training.
        methods: For each of both methods, ``(runs, n)`` what each sample says about it.
        cell: ``(n,)`` int64, the cell of each sample, numbered from 0 without gaps; cells are drawn
            independently of each other.
        each: ``(n,)`` weight of each sample in the sum, the same for all samples of a cell.
        cluster: ``(n,)`` int64, numbered from 0 without gaps, equal for samples that belong
            together.
        confidence: Coverage of the interval.
        answers: Whether samples say right or wrong, 1 or 0.
        over_methods: As for ``paired_difference``.
    """
    value = float(numbers[1].mean() - numbers[0].mean())
    sizes = torch.bincount(cell).double()
    over_samples = _variance_over_samples(
        methods[1].mean(0) - methods[0].mean(0), cell, each, sizes, cluster, answers=answers
    )
    half = _half_width([over_samples], confidence)
    if min(len(runs) for runs in methods) > 1:
        twice = sum(_variance_of_trainings(runs * each, cluster) for runs in methods)
        rest = over_samples._replace(variance=max(0.0, over_samples.variance - twice))
        variances = [[_Part(float(a.var()) / len(a), len(a) - 1) for a in numbers]]
        if over_methods is not None:
            of_both = over_methods.variance * sum(1 / len(a) for a in numbers)
            variances.append([_Part(of_both, over_methods.freedom)])
        # Trainings that agree by chance do not make it narrower than these trainings by themselves.
        wider = [
            _half_width([*parts, rest], confidence)
            for parts in variances
            if sum(part.variance for part in (*parts, rest)) > over_samples.variance
        ]
        half = max(wider, default=half)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), len(cell))


class _Part(NamedTuple):
    """One part of a variance, and the degrees of freedom of its estimate."""

    variance: float
    freedom: float


def _variance_of_trainings(parts: Tensor, cluster: Tensor | None) -> float:
    """The part of the variance over samples that is due to trainings, from (runs, n) summands."""
    if cluster is not None:
        sums = torch.zeros(len(parts), int(cluster.max()) + 1).double()
        parts = sums.index_add(1, cluster, parts)
    return float(parts.var(0).sum()) / len(parts)


def _variance_over_samples(
    differences: Tensor,
    cell: Tensor,
    each: Tensor,
    sizes: Tensor,
    cluster: Tensor | None,
    *,
    answers: bool,
) -> _Part:
    """The variance of a stratified mean, also where cells have few samples, or one.

    All cells together count half a sample more that only the first method answers correctly and
    half that only the second does (Agresti and Min 2005): models that agree everywhere are not
    known to be equal. Where differences are no answers but numbers, that is a sample as far off as
    the farthest. The variance within a cell is estimated from its own samples and, as if it had
    ``_PRIOR`` more, from all cells by their weights. Clusters inflate the variance, and a cell has
    as many degrees of freedom as it has clusters.
    """
    sums, squares = (
        torch.zeros(len(sizes)).double().index_add(0, cell, part)
        for part in (differences, differences**2)
    )
    weights = torch.zeros(len(sizes)).double().index_add(0, cell, each)
    size = weights.abs() / weights.abs().sum()  # a difference of cells has weights below 0
    farthest = float(differences.square().max()) or 1.0
    squares = squares + size * (1.0 if answers else farthest)
    pooled = (size * squares / sizes).sum()
    within = (squares - sums**2 / sizes + _PRIOR * pooled) / (sizes - 1 + _PRIOR)
    parts = weights**2 * within / sizes
    effect, independent = 1.0, sizes
    if cluster is not None:
        effect = inflation(each * (differences - (sums / sizes)[cell]), cell, cluster)
        pairs, each_pair = torch.unique(cluster * len(sizes) + cell, return_counts=True)
        squared = torch.bincount(pairs % len(sizes), weights=each_pair.double() ** 2)
        independent = sizes**2 / squared  # clusters of the same size that say as much
    freedom = float(parts.sum() ** 2 / (parts**2 / (independent - 1 + _PRIOR)).sum())
    return _Part(effect * float(parts.sum()), freedom)


def _half_width(parts: Sequence[_Part], confidence: float) -> float:
    """Half of an interval of Student's t, at Satterthwaite's degrees of freedom."""
    from scipy.special import stdtrit

    variance = sum(part.variance for part in parts)
    freedom = variance**2 / sum(part.variance**2 / part.freedom for part in parts)
    return float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(variance)
