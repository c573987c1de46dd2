"""Folds of cross-validation; samples that belong together are in the same fold."""

from typing import Final

import torch
from torch import Tensor

from crossbias.data.assignment import shuffled

FOLDS: Final = 5  # largest number of folds


def random_folds(
    samples: int, *, folds: int, generator: torch.Generator, cluster: Tensor | None = None
) -> Tensor:
    """The fold of each sample, (samples,), drawn without looking at any label.

    Whole clusters are drawn, large ones first, each into the smallest fold so far. Without
    clusters, the folds' sizes differ by at most one.

    >>> folds = random_folds(7, folds=3, generator=torch.Generator())
    >>> sorted(torch.bincount(folds).tolist())
    [2, 2, 3]
    """
    order = shuffled(torch.arange(samples), generator)
    if cluster is None:
        return torch.empty_like(order).scatter_(0, order, torch.arange(samples) % folds)
    members = torch.unique(cluster, return_inverse=True)[1]
    sizes = torch.bincount(members)
    order = shuffled(torch.arange(len(sizes)), generator)
    filled, fold = [0] * folds, torch.empty_like(order)
    for place in order[sizes[order].argsort(descending=True, stable=True)].tolist():
        fold[place] = smallest = filled.index(min(filled))
        filled[smallest] += int(sizes[place])
    return fold[members]


def stratified_folds(
    labels: Tensor, *, folds: int, generator: torch.Generator, cluster: Tensor | None = None
) -> Tensor:
    """The fold of each sample, (n,); in each class the folds' sizes differ by at most one.

    With clusters this holds for clusters, each of which counts with the rarest of its labels.

    >>> folds = stratified_folds(torch.tensor([0] * 6 + [1] * 3), folds=3,
    ...                          generator=torch.Generator())
    >>> torch.bincount(folds[:6]).tolist(), torch.bincount(folds[6:]).tolist()
    ([2, 2, 2], [1, 1, 1])
    """
    if cluster is not None:
        members = torch.unique(cluster, return_inverse=True)[1]
        rarest = _rarest_label(labels, members)
        return stratified_folds(rarest, folds=folds, generator=generator)[members]
    fold = torch.empty_like(labels)
    for label in torch.bincount(labels).nonzero().squeeze(1).tolist():
        rows = shuffled((labels == label).nonzero().squeeze(1), generator)
        # If every class started with fold 0, the first folds would get all the remainders.
        fold[rows] = (torch.arange(len(rows)) + label) % folds
    return fold


def num_present(labels: Tensor) -> int:
    """How many different labels there are."""
    return int((torch.bincount(labels, minlength=1) > 0).sum())


def usable(labels: Tensor, cluster: Tensor | None = None) -> Tensor:
    """Which samples can be cross-validated, (n,) bool: those whose class has two or more.

    With clusters, these are the samples whose class is in two clusters or more.
    """
    return _independent(labels, cluster)[labels] >= 2


def fitting_folds(labels: Tensor, cluster: Tensor | None = None) -> int:
    """As many folds as the smallest class has samples, or clusters: 2 to ``FOLDS``."""
    counts = _independent(labels, cluster)
    return max(2, min(FOLDS, int(counts[counts > 0].min())))


def _independent(labels: Tensor, cluster: Tensor | None) -> Tensor:
    """The number of samples with each label, or of clusters that have it."""
    if cluster is None:
        return torch.bincount(labels, minlength=1)
    classes = int(labels.max()) + 1 if len(labels) else 1
    pairs = torch.unique(torch.unique(cluster, return_inverse=True)[1] * classes + labels)
    return torch.bincount(pairs % classes, minlength=classes)


def _rarest_label(labels: Tensor, members: Tensor) -> Tensor:
    """For each cluster, numbered from 0, the one of its labels that the fewest clusters have."""
    counts = _independent(labels, members)
    key = counts[labels] * len(counts) + labels
    lowest = torch.full((int(members.max()) + 1,), int(key.max()))
    return lowest.scatter_reduce_(0, members, key, "amin") % len(counts)
