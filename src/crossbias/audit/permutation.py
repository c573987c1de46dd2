"""Permutation tests: shuffled labels, p-values, and Holm's correction over several of them."""

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

ALARM: Final = 0.05  # probability of a false alarm, over everything that is tested together


def enough_permutations(asked: int, *, tests: int) -> int:
    """The number of shuffles asked for, or more if so few could never give a significant p-value.

    With s shuffles the smallest p-value is 1 / (1 + s), and Holm multiplies it by the number of
    tests.

    >>> enough_permutations(99, tests=5), enough_permutations(99, tests=44)
    (99, 879)
    """
    return max(asked, math.ceil(tests / ALARM) - 1)


def shuffled_within(
    labels: Tensor, strata: Tensor, *, count: int, generator: torch.Generator
) -> Tensor:
    """Copies of the labels (n,), each shuffled among the samples of one stratum, (count, n).

    >>> labels, strata = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 0, 1, 1])
    >>> copies = shuffled_within(labels, strata, count=5, generator=torch.Generator())
    >>> copies[:, :2].sum(1).tolist(), copies[:, 2:].sum(1).tolist()
    ([1, 1, 1, 1, 1], [5, 5, 5, 5, 5])
    """
    key = torch.rand(count, len(labels), dtype=torch.float64, generator=generator)
    drawn = (key + strata).argsort(1)  # rows in random order, one stratum after another
    copies = torch.empty(count, len(labels), dtype=labels.dtype)
    places = strata.argsort(stable=True).expand(count, -1)
    return copies.scatter_(1, places, labels[drawn])


def shuffled_clusters(
    labels: Tensor, strata: Tensor, cluster: Tensor, *, count: int, generator: torch.Generator
) -> Tensor:
    """Copies of the labels (n,), shuffled by cluster within each stratum, (count, n).

    Samples of a cluster depend on each other, so single labels must not be exchanged between
    clusters. Clusters whose samples share one label and one stratum exchange their labels. All
    other clusters keep theirs and shuffle them among their own samples of a stratum. If the labels
    say nothing about the samples, all these orders are equally likely: clusters of one label are
    independent of each other, and nothing tells the samples of a cluster apart. This holds given
    which clusters have one label, so a test by these copies is exact.

    >>> labels, cluster = torch.tensor([0, 0, 1, 1, 0, 1]), torch.tensor([7, 7, 8, 8, 9, 9])
    >>> copies = shuffled_clusters(
    ...     labels, 0 * labels, cluster, count=9, generator=torch.Generator())
    >>> bool((copies[:, 0] == copies[:, 1]).all()), copies[:, 4:].sum(1).unique().tolist()
    (True, [1])
    """
    members = torch.unique(cluster, return_inverse=True)[1]
    whole = cluster_constant(labels, members) & cluster_constant(strata, members)
    copies = labels.repeat(count, 1)
    first = torch.zeros(len(whole), dtype=torch.int64)
    first[members.flip(0)] = torch.arange(len(members)).flip(0)  # a row of each cluster
    rows = first[whole]
    moved = shuffled_within(labels[rows], strata[rows], count=count, generator=generator)
    place = whole.cumsum(0) - 1
    chosen = whole[members]
    copies[:, chosen] = moved[:, place[members[chosen]]]
    if not whole.all():
        own = members[~chosen] * (int(strata.max()) + 1) + strata[~chosen]
        copies[:, ~chosen] = shuffled_within(labels[~chosen], own, count=count, generator=generator)
    return copies


def cluster_constant(column: Tensor, cluster: Tensor) -> Tensor:
    """For each cluster, by its number, whether all its samples have the same value, (clusters,).

    >>> cluster_constant(torch.tensor([3, 3, 1, 2]), torch.tensor([8, 8, 9, 9])).tolist()
    [True, False]
    """
    members = torch.unique(cluster, return_inverse=True)[1]
    nothing = torch.zeros(int(members.max()) + 1, dtype=column.dtype)
    most, least = (
        nothing.scatter_reduce(0, members, column, how, include_self=False)
        for how in ("amax", "amin")
    )
    return most == least


def p_value(observed: float, null: Tensor) -> float:
    """How often chance does as well: (1 + number of null values at least as large) / (1 + all).

    Counting the observed value itself keeps the test exact (Phipson & Smyth 2010).

    >>> p_value(0.9, torch.tensor([0.5, 0.6, 0.4]))
    0.25
    """
    # Equal statistics may differ in their last bits, depending on the order of a sum.
    reached = int((null >= observed - 1e-9).sum())
    return (1 + reached) / (1 + len(null))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for the number of tests (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[position]))
        corrected[position] = largest
    return corrected
