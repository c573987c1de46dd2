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

_DENSE = 8  # times as many marks as numbers, at most
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
    cluster = None if cluster is None else distinct(cluster[known])[1]
    weight = None if weight is None else weight[known].double()
    return tuple(map(_limited, _means_of_parts(flags, part, parts, cluster, weight)))


def effective_samples(right: Tensor, cluster: Tensor | None, weight: Tensor | None = None) -> float:
    """How many independent samples would say as much about the accuracy over all samples."""
    return _mean(right, torch.zeros(len(right)).long(), torch.ones(1), cluster, weight).effective


def design_effect(right: Tensor, cluster: Tensor | None, weight: Tensor | None = None) -> float:
    """How many samples say as much about the accuracy as one independent sample, at least 1."""
    return max(1.0, len(right) / effective_samples(right, cluster, weight))


def design_effects(
    kind: Tensor, part: Tensor, parts: int, cluster: Tensor | None, weight: Tensor | None = None
) -> Tensor:
    """How many samples of each part say as much about its shares of kinds as an independent one.

    Whether answers are right may vary from image to image while the answers themselves are those
    of the patient, so the effect on the share of each answer is another one than on the accuracy.

    Args:
        kind: ``(n,)`` int64, the kind of each sample, such as the answer to it.
        part: ``(n,)`` int64, the part of each sample; ``UNKNOWN`` for a sample in none.
        parts: Number of parts.
        cluster: ``(n,)`` int64, the cluster of each sample; None where all are independent.
        weight: ``(n,)`` float, how much each sample counts; None where all count the same.

    Returns:
        ``(parts,)`` float, at least 1; 1 for a part without samples.
    """
    known = part != UNKNOWN
    if not known.any():
        return torch.ones(parts).double()
    cluster = None if cluster is None else distinct(cluster[known])[1]
    weight = None if weight is None else weight[known].double()
    kinds = int(kind.max()) + 1
    found = _shares_of_parts(kind[known], kinds, part[known], parts, cluster, weight)
    return (found.sizes / found.effective.clamp(min=1e-9)).clamp(min=1.0)


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
    cluster = None if cluster is None else distinct(cluster)[1]
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
    found = _shares_of_parts(right.long(), 2, part, parts, cluster, weight)
    columns = (found.rates[:, 1].tolist(), found.effective.tolist(), found.sizes.tolist())
    return [_Mean(*row) for row in zip(*columns, strict=True)]


class _Shares(NamedTuple):
    """How often each kind of sample occurs in each part, and how much that is worth."""

    rates: Tensor  # (parts, kinds)
    effective: Tensor  # (parts,) independent samples that say as much
    sizes: Tensor  # (parts,) samples


def _shares_of_parts(
    kind: Tensor,
    kinds: int,
    part: Tensor,
    parts: int,
    cluster: Tensor | None,
    weight: Tensor | None,
) -> _Shares:
    """The shares of kinds in each part.

    What a sample adds is its distance from the shares of its part, with one coordinate for each
    kind. So with more than two kinds, the effect of clusters is the mean over kinds, as in the
    first-order correction of Rao and Scott (1981).
    """
    from scipy.special import stdtrit

    sizes = torch.bincount(part, minlength=parts)
    of_sample = torch.ones(len(part)).double() if weight is None else weight
    sums, squares = (
        torch.bincount(part, weights=each, minlength=parts) for each in (of_sample, of_sample**2)
    )
    place = part * kinds + kind
    rates = torch.bincount(place, weights=of_sample, minlength=parts * kinds).view(parts, kinds)
    rates = (rates / sums.clamp(min=1e-300)[:, None]).clamp(max=1)  # rounding may exceed it
    together = rates.square().sum(1)
    # The squared distance of a sample from the shares, times the square of its weight.
    off = of_sample**2 * (1 - 2 * rates.flatten()[place] + together[part])
    alone = torch.bincount(part, weights=off, minlength=parts)
    effective = sizes.double()
    if weight is not None:
        effective = _by_weight(rates, sums, squares, alone)
    if cluster is not None:
        pairs, pair = distinct(part * (int(cluster.max()) + 1) + cluster)
        owner = pairs // (int(cluster.max()) + 1)  # the part of each (part, cluster) pair
        triples, triple = distinct(pair * kinds + kind)
        of_pair = torch.bincount(pair, weights=of_sample)
        of_triple = torch.bincount(triple, weights=of_sample)
        known = rates.flatten()[owner[triples // kinds] * kinds + triples % kinds]
        added = of_triple * (of_triple - 2 * known * of_pair[triples // kinds])
        added = torch.bincount(triples // kinds, weights=added) + of_pair**2 * together[owner]
        # As in ``inflation``, for parts that are one group each.
        share = of_pair / sums[owner]
        added = torch.where(share < 1, added / (1 - share).clamp(min=1e-9), 0.0).clamp(min=0)
        variance = torch.bincount(owner, weights=added, minlength=parts)
        clusters = torch.bincount(owner, minlength=parts)
        size = torch.bincount(owner, weights=torch.bincount(pair).double() ** 2, minlength=parts)
        size = size / sizes.clamp(min=1)  # as ``typical_size``
        extra = size * torch.zeros(parts).double().scatter_reduce(0, part, off, "amax") / 2
        effect = (variance + size * extra) / (alone + extra).clamp(min=1e-300)
        effect = torch.minimum(effect.clamp(min=1.0), 2 * size)
        effect = torch.where((alone > 1e-12) & (clusters > 1), effect, size)
        freedom = sizes / size.clamp(min=1) - 1
        quantile = torch.from_numpy(stdtrit(freedom.clamp(min=1).numpy(), 0.975))
        effective = effective / effect.clamp(min=1) * (_Z / quantile) ** 2
    return _Shares(rates, effective, sizes)


def _by_weight(rates: Tensor, sums: Tensor, squares: Tensor, alone: Tensor) -> Tensor:
    """How many samples of the same weight say as much as those of each part.

    It is the smaller of two numbers. Kish's (1965) does not look at the answers. The other is the
    number at which a share varies as much as the weighted one does by linearization, which is
    smaller where heavy samples are answered less certainly.

    Args:
        rates: The weighted shares of kinds in each part, (parts, kinds).
        sums: The sum of the weights.
        squares: The sum of their squares.
        alone: The sum of squares of what samples add, times the square of ``sums``.
    """
    kish = sums**2 / squares.clamp(min=1e-300)
    smooth = (rates * kish[:, None] + 0.5) / (kish[:, None] + rates.shape[1] / 2)
    seen = (1 - smooth.square().sum(1)) * sums**2 / alone.clamp(min=1e-300)
    return torch.where(alone > 1e-12, torch.minimum(kish, seen), kish)


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
        each = torch.bincount(distinct(cluster[chosen])[1])
        quantile = float(stdtrit(max(int(chosen.sum()) / typical_size(each) - 1, 1), 0.975))
        effective *= (_Z / quantile) ** 2 / inflation(influence, place, cluster[chosen])
    return _Mean(min(value, 1.0), effective, int(chosen.sum()))


def inflation(influence: Tensor, part: Tensor, cluster: Tensor) -> float:
    """How much larger clusters make the variance of a sum of centered parts, at least 1.

    This is the variance of the sums over clusters, relative to that of independent samples. A
    cluster that is a share h of a part moves the part's mean, so its sum there is divided by the
    root of 1 - h (Bell and McCaffrey 2002). The result is at most twice the typical size of a
    cluster, and that size where no sample adds anything.

    Args:
        influence: ``(n,)`` float, what each sample adds; the mean over a part is 0.
        part: ``(n,)`` int64, the part of each sample, numbered from 0 without gaps.
        cluster: ``(n,)`` int64, the cluster of each sample.
    """
    members = distinct(cluster)[1]
    clusters, alone = int(members.max()) + 1, float((influence**2).sum())
    size = typical_size(torch.bincount(members))
    if not alone or clusters < 2:
        return size
    pairs, pair = distinct(members * (int(part.max()) + 1) + part)
    in_part = pairs % (int(part.max()) + 1)
    share = torch.bincount(pair).double() / torch.bincount(part)[in_part]
    sums = torch.zeros(len(pairs)).double().index_add(0, pair, influence)
    sums = torch.where(share < 1, sums / (1 - share).clamp(min=1e-9).sqrt(), 0.0)
    owner = pairs // (int(part.max()) + 1)
    variance = torch.zeros(clusters).double().index_add(0, owner, sums).square().sum()
    # Half a cluster of typical size whose samples are all as far off as the farthest: few errors
    # say little about how alike the samples of a cluster are.
    extra = size * float(influence.square().max()) / 2
    effect = (float(variance) + size * extra) / (alone + extra)
    return min(max(effect, 1.0), 2 * size)


def typical_size(sizes: Tensor) -> float:
    """The mean size of the cluster that a sample is in: large clusters count by their samples."""
    return float(sizes.double().square().sum() / sizes.sum())


def distinct(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct ones of some whole numbers, sorted, and the place of each among them.

    Numbers from 0 to a few times their count are marked, not sorted: that is linear.

    >>> distinct(torch.tensor([5, 0, 5]))
    (tensor([0, 5]), tensor([1, 0, 1]))
    """
    if not len(numbers) or numbers.min() < 0 or numbers.max() > _DENSE * len(numbers):
        found, place = torch.unique(numbers, return_inverse=True)
        return found, place
    present = torch.zeros(int(numbers.max()) + 1, dtype=torch.bool)
    present[numbers] = True
    return present.nonzero().squeeze(1), (present.cumsum(0) - 1)[numbers]
