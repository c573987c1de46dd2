"""Samples that belong together, such as the images of one patient: how much they really say."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

from crossbias.types import UNKNOWN
from crossbias.verify.accuracies import stratified
from crossbias.verify.intervals import NO_SAMPLES, Estimate, lowest_of, wilson, wilson_limits

if TYPE_CHECKING:
    from crossbias.verify.metrics import Metrics

_Z: Final = 1.959963984540054  # the normal quantile of a 95% interval


def clustered_accuracy(right: Tensor, part: Tensor, weights: Tensor, cluster: Tensor) -> Estimate:
    """A weighted mean of accuracies, whose interval is over clusters of samples.

        sum over parts p of weights[p] * accuracy on the samples of p

    The variance is that of the sums over clusters (Taylor linearization, as survey statistics
    does). The limits are Wilson's at the number of independent samples that would vary as much, and
    wider by Student's t for few clusters (Korn and Graubard 1998). Where no sample is wrong, or
    none is right, a cluster counts as one sample.

    Args:
        right: ``(n,)`` bool, whether the model is right on each sample.
        part: ``(n,)`` int64, the part of each sample.
        weights: ``(parts,)`` float; parts of weight 0 or without samples count nothing.
        cluster: ``(n,)`` int64, the cluster of each sample.

    Returns:
        The mean; ``n`` is the number of samples.
    """
    return _limited(_mean(right, part, weights, cluster))


def share_of(flags: Tensor, cluster: Tensor | None) -> Estimate:
    """The share of samples with a flag, over clusters if there are any.

    Args:
        flags: ``(n,)`` bool.
        cluster: ``(n,)`` int64, the cluster of each sample; None where all are independent.
    """
    if cluster is None:
        return wilson(int(flags.sum()), len(flags))
    return clustered_accuracy(flags, torch.zeros_like(cluster), torch.ones(1), cluster)


def shares_by(
    flags: Tensor,
    part: Tensor,
    parts: int,
    *,
    cluster: Tensor | None = None,
    weight: Tensor | None = None,
) -> tuple[Estimate, ...]:
    """The share of samples with a flag in each part, over clusters and by weight if there are any.

    Args:
        flags: ``(n,)`` bool.
        part: ``(n,)`` int64, the part of each sample; ``UNKNOWN`` for a sample in none.
        parts: Number of parts; ``NO_SAMPLES`` for one without samples.
        cluster: ``(n,)`` int64, the cluster of each sample; None where all are independent.
        weight: ``(n,)`` float, how much each sample counts; None where all count the same.

    >>> shares = shares_by(torch.tensor([True, False, True]), torch.tensor([0, 0, 1]), 2)
    >>> [share.value for share in shares]
    [0.5, 1.0]
    """
    known = part != UNKNOWN
    flags, part = flags[known], part[known]
    if cluster is None and weight is None:
        hits, sizes = (torch.bincount(each, minlength=parts) for each in (part[flags], part))
        return tuple(map(wilson, hits.tolist(), sizes.tolist()))
    cluster = None if cluster is None else torch.unique(cluster[known], return_inverse=True)[1]
    weight = None if weight is None else weight[known].double()
    return tuple(map(_limited, _means_of_parts(flags, part, parts, cluster, weight)))


def effective_samples(right: Tensor, cluster: Tensor | None, weight: Tensor | None = None) -> float:
    """How many independent samples would say as much about the accuracy over all samples."""
    return _mean(right, torch.zeros(len(right)).long(), torch.ones(1), cluster, weight).effective


def design_effect(right: Tensor, cluster: Tensor | None, weight: Tensor | None = None) -> float:
    """How many samples say as much about the accuracy as one independent sample, at least 1."""
    return max(1.0, len(right) / effective_samples(right, cluster, weight))


def with_clusters(
    metrics: "Metrics",
    targets: Tensor,
    biases: Tensor,
    answers: Tensor,
    cluster: Tensor | None,
    weight: Tensor | None = None,
) -> "Metrics":
    """The metrics with all accuracies by weight, and their intervals over clusters.

    Args:
        metrics: Metrics of these answers, whose intervals are over single samples.
        targets: ``(n,)`` class numbers.
        biases: ``(n,)`` bias values, ``UNKNOWN`` where not known.
        answers: ``(n,)`` predicted class numbers.
        cluster: ``(n,)`` the cluster of each sample, any whole numbers; None where all samples are
            independent.
        weight: ``(n,)`` float, how much each sample counts; None where all count the same.
    """
    cluster = None if cluster is None else torch.unique(cluster, return_inverse=True)[1]
    right, cells = answers == targets, metrics.cells
    place = cells.place_of(targets, biases)
    means = {
        name: _mean(right, *stratified(name, cells, place), cluster, weight)
        for name in ("overall", "aligned", "conflicting", "unbiased", "class_averaged")
        if getattr(metrics, name) is not None
    }
    found: dict[str, Any] = {name: _limited(mean) for name, mean in means.items()}
    of_cells = _means_of_parts(right, place, len(cells.total), cluster, weight)
    of_groups = [mean for mean, known in zip(of_cells, cells.known, strict=True) if known]
    groups = tuple(
        group._replace(accuracy=_limited(mean))
        for group, mean in zip(metrics.groups, of_groups, strict=True)
    )
    of_classes = _means_of_parts(right, targets, len(metrics.classes), cluster, weight)
    worst = min(groups, key=lambda group: group.accuracy.value, default=None)
    worst = worst and worst._replace(accuracy=_lowest(of_groups))
    return replace(
        metrics, **found, groups=groups, worst_group=worst,
        per_class=tuple(map(_limited, of_classes)),
        clusters=None if cluster is None else int(cluster.max()) + 1,
        effective_samples=means["overall"].effective,
    )  # fmt: skip


class _Mean(NamedTuple):
    """A mean, the number of independent samples that say as much about it, and the samples."""

    value: float
    effective: float
    n: int


def _limited(mean: _Mean) -> Estimate:
    """The mean with Wilson's limits."""
    if not mean.n:
        return NO_SAMPLES
    return Estimate(mean.value, *wilson_limits(mean.value, mean.effective), mean.n)


def _lowest(groups: Sequence[_Mean]) -> Estimate:
    """The lowest accuracy of a group, with limits at the effective sizes of all groups."""
    if not groups:
        return NO_SAMPLES
    hits = [value * effective for value, effective, _ in groups]
    limits = lowest_of(hits, [effective for _, effective, _ in groups])
    worst = min(groups, key=lambda group: group.value)
    return Estimate(worst.value, limits.low, limits.high, worst.n)


def _means_of_parts(
    right: Tensor, part: Tensor, parts: int, cluster: Tensor | None, weight: Tensor | None
) -> list[_Mean]:
    """``_mean`` of each part by itself, all of them in one pass over the samples."""
    from scipy.special import stdtrit

    sizes = torch.bincount(part, minlength=parts).double()
    of_sample = torch.ones(len(part)).double() if weight is None else weight
    sums, squares = (
        torch.bincount(part, weights=each, minlength=parts) for each in (of_sample, of_sample**2)
    )
    rates = torch.bincount(part, weights=of_sample * right.double(), minlength=parts)
    rates = (rates / sums.clamp(min=1e-300)).clamp(max=1)  # rounding may exceed it
    off = of_sample * (right.double() - rates[part])  # what a sample adds, times the part's weight
    alone = torch.bincount(part, weights=off.square(), minlength=parts)
    effective = sizes
    if weight is not None:
        effective = _by_weight(rates, sums, squares, alone)
    if cluster is not None:
        largest = torch.zeros(parts).double().scatter_reduce(0, part, off.square(), "amax")
        pairs, pair = torch.unique(part * (int(cluster.max()) + 1) + cluster, return_inverse=True)
        owner = pairs // (int(cluster.max()) + 1)  # the part of each (part, cluster) pair
        share = torch.bincount(pair, weights=of_sample) / sums[owner]
        added = torch.bincount(pair, weights=off)
        # As in ``inflation``, for parts that are one group each.
        added = torch.where(share < 1, added / (1 - share).clamp(min=1e-9).sqrt(), 0.0)
        variance = torch.bincount(owner, weights=added.square(), minlength=parts)
        clusters = torch.bincount(owner, minlength=parts).double()
        mean_size = sizes / clusters.clamp(min=1)
        extra = mean_size * largest / 2
        effect = (variance + mean_size * extra) / (alone + extra).clamp(min=1e-300)
        effect = torch.minimum(effect.clamp(min=1.0), 2 * mean_size)
        effect = torch.where((alone > 0) & (clusters > 1), effect, mean_size)
        quantile = torch.from_numpy(stdtrit((clusters - 1).clamp(min=1).numpy(), 0.975))
        effective = effective / effect.clamp(min=1) * (_Z / quantile) ** 2
    columns = (rates.tolist(), effective.tolist(), sizes.long().tolist())
    return [_Mean(*row) for row in zip(*columns, strict=True)]


def _by_weight(rates: Tensor, sums: Tensor, squares: Tensor, alone: Tensor) -> Tensor:
    """How many samples of the same weight say as much as those of each part.

    It is the smaller of two numbers. Kish's (1965) does not look at the answers. The other is the
    number at which a share varies as much as the weighted one does by linearization, which is
    smaller where heavy samples are answered less certainly.

    Args:
        rates: The weighted share in each part.
        sums: The sum of the weights.
        squares: The sum of their squares.
        alone: The sum of squares of what samples add, times the square of ``sums``.
    """
    kish = sums**2 / squares.clamp(min=1e-300)
    smooth = (rates * kish + 0.5) / (kish + 1)
    seen = smooth * (1 - smooth) * sums**2 / alone.clamp(min=1e-300)
    return torch.where(alone > 0, torch.minimum(kish, seen), kish)


def _mean(
    right: Tensor,
    part: Tensor,
    weights: Tensor,
    cluster: Tensor | None,
    weight: Tensor | None = None,
) -> _Mean:
    """A weighted mean over parts, in which samples may have weights of their own."""
    from scipy.special import stdtrit

    of_sample = torch.ones(len(part)).double() if weight is None else weight.double()
    counted = torch.bincount(part, minlength=len(weights))
    used = (weights != 0) & (counted > 0)
    chosen = used[part]
    if not chosen.any():
        return _Mean(math.nan, 0.0, 0)
    hits, sums, squares = (
        torch.bincount(part, weights=each, minlength=len(weights))[used]
        for each in (of_sample * right.double(), of_sample, of_sample**2)
    )
    weights, sizes = weights[used].double(), sums**2 / squares  # sizes: Kish's, or the samples
    rates = (hits / sums).clamp(max=1)  # rounding may exceed it
    smooth = (rates * sizes + 0.5) / (sizes + 1)
    value, mean = float(weights @ rates), float(weights @ smooth / weights.sum())
    independent = float((weights**2 * smooth * (1 - smooth) / sizes).sum())
    place = (used.cumsum(0) - 1)[part[chosen]]
    influence = (weights / sums)[place] * of_sample[chosen]
    influence = influence * (right[chosen].double() - rates[place])
    if weight is not None:  # as in ``_by_weight``
        independent = max(independent, float(influence.square().sum()))
    effective = mean * (1 - mean) / independent
    if cluster is not None:
        clusters = len(torch.unique(cluster[chosen]))
        quantile = float(stdtrit(max(clusters - 1, 1), 0.975))
        effective *= (_Z / quantile) ** 2 / inflation(influence, place, cluster[chosen])
    return _Mean(min(value, 1.0), effective, int(chosen.sum()))


def inflation(influence: Tensor, part: Tensor, cluster: Tensor) -> float:
    """How much larger clusters make the variance of a sum of centered parts, at least 1.

    This is the variance of the sums over clusters, relative to that of independent samples. A
    cluster that is a share h of a part moves the part's mean, so its sum there is divided by the
    root of 1 - h (Bell and McCaffrey 2002). The result is at most twice the mean size of a cluster,
    and that size where no sample adds anything.

    Args:
        influence: ``(n,)`` float, what each sample adds; the mean over a part is 0.
        part: ``(n,)`` int64, the part of each sample, numbered from 0 without gaps.
        cluster: ``(n,)`` int64, the cluster of each sample.
    """
    members = torch.unique(cluster, return_inverse=True)[1]
    clusters, alone = int(members.max()) + 1, float((influence**2).sum())
    mean_size = len(cluster) / clusters
    if not alone or clusters < 2:
        return mean_size
    pairs, pair = torch.unique(members * (int(part.max()) + 1) + part, return_inverse=True)
    in_part = pairs % (int(part.max()) + 1)
    share = torch.bincount(pair).double() / torch.bincount(part)[in_part]
    sums = torch.zeros(len(pairs)).double().index_add(0, pair, influence)
    sums = torch.where(share < 1, sums / (1 - share).clamp(min=1e-9).sqrt(), 0.0)
    owner = pairs // (int(part.max()) + 1)
    variance = torch.zeros(clusters).double().index_add(0, owner, sums).square().sum()
    # Half a cluster of mean size whose samples are all as far off as the farthest: few errors say
    # little about how alike the samples of a cluster are.
    extra = mean_size * float(influence.square().max()) / 2
    effect = (float(variance) + mean_size * extra) / (alone + extra)
    return min(max(effect, 1.0), 2 * mean_size)
