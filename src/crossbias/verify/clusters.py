"""Samples that belong together, such as the images of one patient: how much they really say."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

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


def effective_samples(right: Tensor, cluster: Tensor) -> float:
    """How many independent samples would say as much about the accuracy over all samples."""
    return _mean(right, torch.zeros_like(cluster), torch.ones(1), cluster).effective


def design_effect(right: Tensor, cluster: Tensor) -> float:
    """How many samples say as much about the accuracy as one independent sample, at least 1."""
    return max(1.0, len(right) / effective_samples(right, cluster))


def with_clusters(
    metrics: "Metrics", targets: Tensor, biases: Tensor, answers: Tensor, cluster: Tensor
) -> "Metrics":
    """The metrics with all accuracies' intervals over clusters.

    Args:
        metrics: Metrics of these answers, whose intervals are over single samples.
        targets: ``(n,)`` class numbers.
        biases: ``(n,)`` bias values, ``UNKNOWN`` where not known.
        answers: ``(n,)`` predicted class numbers.
        cluster: ``(n,)`` the cluster of each sample, any whole numbers.
    """
    cluster = torch.unique(cluster, return_inverse=True)[1]
    right, cells = answers == targets, metrics.cells
    place = cells.place_of(targets, biases)
    found: dict[str, Any] = {
        name: clustered_accuracy(right, *stratified(name, cells, place), cluster)
        for name in ("overall", "aligned", "conflicting", "unbiased", "class_averaged")
        if getattr(metrics, name) is not None
    }
    of_cells = _means_of_parts(right, place, len(cells.total), cluster)
    of_groups = [mean for mean, known in zip(of_cells, cells.known, strict=True) if known]
    groups = tuple(
        group._replace(accuracy=_limited(mean))
        for group, mean in zip(metrics.groups, of_groups, strict=True)
    )
    of_classes = _means_of_parts(right, targets, len(metrics.classes), cluster)
    worst = metrics.worst_group and metrics.worst_group._replace(accuracy=_lowest(of_groups))
    return replace(
        metrics, **found, groups=groups, worst_group=worst,
        per_class=tuple(map(_limited, of_classes)),
        clusters=int(cluster.max()) + 1, effective_samples=effective_samples(right, cluster),
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


def _means_of_parts(right: Tensor, part: Tensor, parts: int, cluster: Tensor) -> list[_Mean]:
    """``_mean`` of each part by itself, all of them in one pass over the samples."""
    from scipy.special import stdtrit

    sizes = torch.bincount(part, minlength=parts).double()
    rates = torch.bincount(part, weights=right.double(), minlength=parts) / sizes.clamp(min=1)
    off = right.double() - rates[part]  # what a sample adds, times the size of its part
    squares = off.square()
    alone = torch.bincount(part, weights=squares, minlength=parts)
    largest = torch.zeros(parts).double().scatter_reduce(0, part, squares, "amax")
    pairs, pair = torch.unique(part * (int(cluster.max()) + 1) + cluster, return_inverse=True)
    owner = pairs // (int(cluster.max()) + 1)  # the part of each (part, cluster) pair
    share = torch.bincount(pair) / sizes[owner]
    sums = torch.bincount(pair, weights=off)
    # As in ``inflation``, for parts that are one group each.
    sums = torch.where(share < 1, sums / (1 - share).clamp(min=1e-9).sqrt(), 0.0)
    variance = torch.bincount(owner, weights=sums.square(), minlength=parts)
    clusters = torch.bincount(owner, minlength=parts).double()
    mean_size = sizes / clusters.clamp(min=1)
    extra = mean_size * largest / 2
    effect = (variance + mean_size * extra) / (alone + extra).clamp(min=1e-300)
    effect = torch.minimum(effect.clamp(min=1.0), 2 * mean_size)
    effect = torch.where((alone > 0) & (clusters > 1), effect, mean_size)
    quantile = torch.from_numpy(stdtrit((clusters - 1).clamp(min=1).numpy(), 0.975))
    effective = sizes / effect.clamp(min=1) * (_Z / quantile) ** 2
    columns = (rates.tolist(), effective.tolist(), sizes.long().tolist())
    return [_Mean(*row) for row in zip(*columns, strict=True)]


def _mean(right: Tensor, part: Tensor, weights: Tensor, cluster: Tensor) -> _Mean:
    """A weighted mean over parts."""
    from scipy.special import stdtrit

    sizes = torch.bincount(part, minlength=len(weights))
    used = (weights != 0) & (sizes > 0)
    chosen = used[part]
    if not chosen.any():
        return _Mean(math.nan, 0.0, 0)
    hits = torch.bincount(part, weights=right.double(), minlength=len(weights))[used]
    sizes, weights = sizes[used].double(), weights[used].double()
    rates, smooth = hits / sizes, (hits + 0.5) / (sizes + 1)
    value, mean = float(weights @ rates), float(weights @ smooth / weights.sum())
    independent = float((weights**2 * smooth * (1 - smooth) / sizes).sum())
    place = (used.cumsum(0) - 1)[part[chosen]]
    influence = (weights / sizes)[place] * (right[chosen].double() - rates[place])
    effective = mean * (1 - mean) / independent / inflation(influence, place, cluster[chosen])
    clusters = len(torch.unique(cluster[chosen]))
    quantile = float(stdtrit(max(clusters - 1, 1), 0.975))
    return _Mean(value, effective * (_Z / quantile) ** 2, int(chosen.sum()))


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
