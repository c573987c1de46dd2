"""Samples that belong together, such as the images of one patient: how much they really say."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crossbias.verify.accuracies import stratified
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
    right, cells = answers == targets, metrics.cells
    place = cells.place_of(targets, biases)
    found: dict[str, Any] = {
        name: clustered_accuracy(right, *stratified(name, cells, place), cluster)
        for name in ("overall", "aligned", "conflicting", "unbiased", "class_averaged")
        if getattr(metrics, name) is not None
    }
    of_cells = [
        rows for rows, known in zip(_rows_of(place, len(cells.total)), cells.known, strict=True)
        if known
    ]  # fmt: skip
    groups = tuple(
        group._replace(accuracy=share_of(right[rows], cluster[rows]))
        for group, rows in zip(metrics.groups, of_cells, strict=True)
    )
    of_classes = _rows_of(targets, len(metrics.classes))
    worst = metrics.worst_group and metrics.worst_group._replace(
        accuracy=_lowest(right, cluster, of_cells)
    )
    return replace(
        metrics, **found, groups=groups, worst_group=worst,
        per_class=tuple(share_of(right[rows], cluster[rows]) for rows in of_classes),
        clusters=int(cluster.max()) + 1, effective_samples=effective_samples(right, cluster),
    )  # fmt: skip


def _rows_of(part: Tensor, parts: int) -> tuple[Tensor, ...]:
    """The samples of each part, found in one pass."""
    sizes: list[int] = torch.bincount(part, minlength=parts).tolist()
    return torch.split(part.argsort(stable=True), sizes)


def _lowest(right: Tensor, cluster: Tensor, groups: Sequence[Tensor]) -> Estimate:
    """The lowest accuracy of a group, with limits at the effective sizes of all groups."""
    found = [
        _mean(right[rows], torch.zeros_like(rows), torch.ones(1), cluster[rows]) for rows in groups
    ]
    if not found:
        return NO_SAMPLES
    limits = lowest_of([value * size for value, size, _ in found], [size for _, size, _ in found])
    value, _, n = min(found, key=lambda group: group[0])
    return Estimate(value, limits.low, limits.high, n)


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
