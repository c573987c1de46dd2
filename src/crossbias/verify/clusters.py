"""Samples that belong together, such as the images of one patient: how much they really say."""

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crossbias.verify.accuracies import WEIGHTS, stratified
from crossbias.verify.cells import Group
from crossbias.verify.intervals import NO_SAMPLES, Estimate, lowest_of, wilson, wilson_limits

if TYPE_CHECKING:
    from crossbias.verify.metrics import Metrics


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
    value, effective, n = _mean(right, part, weights, cluster)
    if not n:
        return NO_SAMPLES
    return Estimate(value, *wilson_limits(value, effective), n)


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
    return _mean(right, torch.zeros_like(cluster), torch.ones(1), cluster)[1]


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
    width, right = len(metrics.biases) + 1, answers == targets
    cell = targets * width + biases.remainder(width)
    over = partial(_judged, right, cluster)
    cells = metrics.cells
    found: dict[str, Any] = {
        name: over(*stratified(name, cell, WEIGHTS[name](cells)))
        for name in ("overall", "aligned", "conflicting", "unbiased", "class_averaged")
        if getattr(metrics, name) is not None
    }
    groups = tuple(
        Group(group.target, group.bias, over(cell == row * width + column, None))
        for (row, column), group in zip(
            ((r, c) for r in range(len(metrics.classes)) for c in range(width - 1)),
            metrics.groups,
            strict=True,
        )
    )
    per_class = tuple(over(targets == number, None) for number in range(len(metrics.classes)))
    worst = metrics.worst_group and metrics.worst_group._replace(
        accuracy=_lowest(right, cluster, cell, width)
    )
    return replace(
        metrics, **found, groups=groups, per_class=per_class, worst_group=worst,
        clusters=int(cluster.max()) + 1, effective_samples=effective_samples(right, cluster),
    )  # fmt: skip


def _judged(right: Tensor, cluster: Tensor, part: Tensor, weights: Tensor | None) -> Estimate:
    if weights is None:
        part, weights = part.long(), torch.tensor([0.0, 1.0])
    return clustered_accuracy(right, part, weights, cluster)


def _lowest(right: Tensor, cluster: Tensor, cell: Tensor, width: int) -> Estimate:
    """The lowest accuracy of a group, with limits at the effective sizes of all groups."""
    known = [number for number in sorted(set(cell.tolist())) if number % width < width - 1]
    sizes, hits, real = [], [], []
    for number in known:
        value, effective, n = _mean(
            right, (cell == number).long(), torch.tensor([0.0, 1.0]), cluster
        )
        sizes.append(effective)
        hits.append(value * effective)
        real.append((value, n))
    if not known:
        return NO_SAMPLES
    worst = min(range(len(real)), key=lambda place: real[place][0])
    limits = lowest_of(hits, sizes)
    return Estimate(real[worst][0], limits.low, limits.high, real[worst][1])


def _mean(
    right: Tensor, part: Tensor, weights: Tensor, cluster: Tensor
) -> tuple[float, float, int]:
    """The weighted mean, the number of independent samples that say as much, and the samples."""
    from scipy.special import stdtrit

    sizes = torch.bincount(part, minlength=len(weights))
    used = (weights != 0) & (sizes > 0)
    chosen = used[part]
    if not chosen.any():
        return math.nan, 0.0, 0
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
    return value, effective * (1.959963984540054 / quantile) ** 2, int(chosen.sum())


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
    share = torch.bincount(pair) / torch.bincount(part)[in_part]
    sums = torch.zeros(len(pairs)).double().index_add(0, pair, influence)
    sums = torch.where(share < 1, sums / (1 - share).clamp(min=1e-9).sqrt(), 0.0)
    owner = pairs // (int(part.max()) + 1)
    variance = torch.zeros(clusters).double().index_add(0, owner, sums).square().sum()
    # Half a cluster of mean size whose samples are all as far off as the farthest: few errors say
    # little about how alike the samples of a cluster are.
    extra = mean_size * float(influence.square().max()) / 2
    effect = (float(variance) + mean_size * extra) / (alone + extra)
    return min(max(effect, 1.0), 2 * mean_size)


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
        part: ``(n,)`` int64, the part of each sample; -1 for a sample in none.
        parts: Number of parts; ``NO_SAMPLES`` for one without samples.
        cluster: ``(n,)`` int64, the cluster of each sample.
        weight: ``(n,)`` float, how much each sample counts.
    """
    sizes = torch.bincount(part + 1, minlength=parts + 1)
    if cluster is None and weight is None:
        hits = torch.bincount(part[flags] + 1, minlength=parts + 1)
        return tuple(map(wilson, hits[1:].tolist(), sizes[1:].tolist()))
    order = torch.argsort(part, stable=True)  # the samples of a part beside each other
    rows = torch.split(order, sizes.tolist())[1:]
    return tuple(share_of(flags[each], None if cluster is None else cluster[each]) for each in rows)
