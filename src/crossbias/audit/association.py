"""How strongly two columns of labels are associated: Cramer's V and mutual information."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crossbias.audit.permutation import ALARM, cluster_constant, shuffled_clusters
from crossbias.verify import Estimate
from crossbias.verify.bootstrap import percentile

Table = npt.NDArray[np.float64]

POWER: Final = 0.8  # probability with which an effect that is stated as detectable is found

AIM: Final = 0.87
"""The power by the formulas at which ``POWER`` is reached: shuffles are finite in number, and the
formulas leave out how scores vary from sample to sample (``benchmarks.audit_power``)."""

MOST_SHUFFLED: Final = 100_000
"""With more samples, null tables are drawn from their distribution instead of by shuffling."""

_PRIOR: Final = 4  # samples, or clusters, of independent columns that are added before resampling
_CHUNK: Final = 2**22  # shuffled labels at a time
_MOST_NUMBERS: Final = 2**24  # of tables that are held at once


class Strength(NamedTuple):
    """Two measures of association, a permutation p-value, and what the test can find."""

    cramers_v: Estimate  # adjusted for chance, with a bootstrap interval
    mutual_information: float  # adjusted for chance; its interval would not hold what it says
    p: float
    detectable: float  # Cramer's V that is found with the probability ``POWER``


def cramers_v(counts: Table) -> npt.NDArray[np.float64]:
    r"""Cramer's V with Bergsma's correction (2013), which is near 0 for independent columns.

    .. math:: \tilde V = \sqrt{\frac{\max(0, \phi^2 - \frac{(r-1)(c-1)}{n-1})}
        {\min(\tilde r, \tilde c) - 1}}, \qquad \tilde r = r - \frac{(r-1)^2}{n-1}

    Args:
        counts: ``(..., rows, columns)`` tables; empty rows and columns do not count.

    Returns:
        ``(...)`` numbers from 0 to 1; 0 if only one row or column is filled.

    >>> float(cramers_v(np.array([[50.0, 0.0], [0.0, 50.0]])).round(3))
    1.0
    """
    n = counts.sum((-1, -2))
    rows, columns = (counts.sum(axis) > 0 for axis in (-1, -2))
    r, c = rows.sum(-1).astype(np.float64), columns.sum(-1).astype(np.float64)
    below = np.maximum(n - 1, 1)
    excess = np.maximum(0.0, _phi_squared(counts) - (r - 1) * (c - 1) / below)
    shrunk = np.minimum(r - (r - 1) ** 2 / below, c - (c - 1) ** 2 / below) - 1
    ratio = np.divide(excess, shrunk, out=np.zeros_like(excess), where=shrunk > 0)
    result: npt.NDArray[np.float64] = np.sqrt(np.minimum(ratio, 1.0))
    return result


def mutual_information(counts: Table) -> npt.NDArray[np.float64]:
    """Mutual information divided by the mean of the two entropies, from 0 to 1, (...)."""
    joint = counts / np.maximum(counts.sum((-1, -2), keepdims=True), 1)
    rows, columns = joint.sum(-1), joint.sum(-2)
    entropies = _entropy(rows) + _entropy(columns)
    shared = entropies - _entropy(joint.reshape(*joint.shape[:-2], -1))
    ratio = np.divide(2 * shared, entropies, out=np.zeros_like(shared), where=entropies > 0)
    return np.clip(ratio, 0.0, 1.0)


def adjusted(measure: npt.NDArray[np.float64], chance: float) -> npt.NDArray[np.float64]:
    """A measure from 0 to 1, less what chance alone gives: 0 on average for independent columns.

    For the normalized mutual information this is the adjusted one (Vinh et al. 2010). It may be
    below 0.

    >>> adjusted(np.array([0.1, 0.55, 1.0]), 0.1).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    return (measure - chance) / (1 - chance) if chance < 1 else np.zeros_like(measure)


def detectable_v(present: tuple[int, int], *, independent: float, tests: int) -> float:
    """Cramer's V that the test finds with the probability ``POWER`` after the correction.

    Args:
        present: Number of classes and of values that occur.
        independent: Number of independent samples.
        tests: Number of tests of the audit; the smallest p-value is multiplied by it.

    >>> round(detectable_v((2, 2), independent=100, tests=1), 2)
    0.31
    """
    from scipy.special import chdtri, chndtrinc

    freedom = (present[0] - 1) * (present[1] - 1)
    critical = chdtri(freedom, ALARM / tests)
    excess = float(chndtrinc(critical, freedom, 1 - AIM))
    return min(1.0, math.sqrt(excess / independent / (min(present) - 1)))


def count_table(targets: Tensor, values: Tensor, shape: tuple[int, int]) -> Table:
    """Number of samples of each (target, value) pair, as floating-point numbers."""
    cells = torch.bincount(targets * shape[1] + values, minlength=math.prod(shape))
    return cells.view(shape).double().numpy()


def strength_of(
    targets: Tensor,
    values: Tensor,
    *,
    shape: tuple[int, int],
    permutations: int,
    seed: int,
    tests: int = 1,
    cluster: Tensor | None = None,
) -> Strength:
    """How strongly two columns are associated, and the p-value of independence.

    Cramer's V is the root of Pearson's phi² over its maximum, adjusted for chance. Without
    clusters, shuffled columns give (r - 1)(c - 1)/(n - 1) on average; with clusters, which shuffles
    and bootstrap keep together, the shuffles tell. The interval is that of the bootstrap, shifted
    so that the median of resampled tables is the value.

    Args:
        targets: ``(n,)`` class numbers.
        values: ``(n,)`` value numbers, all of them known; two classes and two values occur.
        shape: Number of classes and of values.
        permutations: Number of shuffles behind the p-value, and of bootstrap tables.
        seed: Seed of both.
        tests: Number of tests of the audit, for what can be found.
        cluster: ``(n,)`` int64, equal for samples that belong together.
    """
    random, n = np.random.default_rng(seed), len(targets)
    counts = count_table(targets, values, shape)
    rows, columns = (int((counts.sum(axis) > 0).sum()) for axis in (1, 0))
    cell, parts = targets * shape[1] + values, _parts(permutations, counts.size)
    drawn = [_phi_squared(each) for each in _drawn(cell, shape, cluster, parts, random)]
    if cluster is None and n > max(MOST_SHUFFLED, counts.size):
        tables = (_null_tables(counts, size, random) for size in parts)
    else:
        pairs = _shuffled(targets, values, cluster, permutations, random)
        tables = (
            np.stack([count_table(*pair, shape) for pair in itertools.islice(pairs, size)])
            for size in parts
        )
    null = [(_phi_squared(each), mutual_information(each)) for each in tables]
    most, freedom = min(rows, columns) - 1, (rows - 1) * (columns - 1)
    observed, resampled = _phi_squared(counts) / most, np.concatenate(drawn) / most
    by_chance, shared = (np.concatenate(each) for each in zip(*null, strict=True))
    by_chance = by_chance / most
    reached = 1 + int((by_chance >= observed - 1e-12).sum())  # the observed order is possible too
    chance = freedom / most / (n - 1) if cluster is None else float(by_chance.mean())
    worth = min(n, 1 + freedom / most / max(chance, 1e-12))  # so many independent samples
    squared = adjusted(observed, chance)
    # A resampled table exceeds independence twice: by the chance in the sample and by its own.
    draws = adjusted(adjusted(resampled, chance), chance)
    draws = np.sqrt(np.clip(draws - np.median(draws) + squared, 0, 1))
    information = adjusted(mutual_information(counts), float(shared.mean()))
    return Strength(
        percentile(math.sqrt(min(1.0, max(0.0, float(squared)))), draws, n),
        max(0.0, float(information)),
        reached / (1 + permutations),
        detectable_v((rows, columns), independent=worth, tests=tests),
    )


def _parts(tables: int, cells: int) -> list[int]:
    """How many tables are held at once, one part after the other."""
    size = max(1, _MOST_NUMBERS // cells)
    return [min(size, tables - start) for start in range(0, tables, size)]


def _drawn(
    cell: Tensor,
    shape: tuple[int, int],
    cluster: Tensor | None,
    parts: Sequence[int],
    random: np.random.Generator,
) -> Iterator[Table]:
    """Tables of counts, (part, *shape), of samples or clusters that are drawn with replacement.

    Some of independent columns are added first. Otherwise a table without an exception would pass
    as certain.
    """
    n, cells = len(cell), math.prod(shape)
    counts = torch.bincount(cell, minlength=cells).view(shape).double().numpy()
    unrelated = (counts.sum(1, keepdims=True) * counts.sum(0) / n**2).ravel()
    if cluster is None:
        shares = (counts.ravel() + _PRIOR * unrelated) / (n + _PRIOR)
        for part in parts:
            tables = random.multinomial(n, shares, size=part)
            yield tables.reshape(-1, *shape).astype(np.float64)
        return
    members = torch.unique(cluster, return_inverse=True)[1].numpy()
    clusters = int(members.max()) + 1
    share = np.full(clusters, 1 / clusters)
    all_added = random.binomial(clusters, _PRIOR / (clusters + _PRIOR), size=sum(parts))
    for added_part in np.split(all_added, np.cumsum(parts)[:-1]):
        found = []
        for added in added_part:
            weights = random.multinomial(clusters - added, share)[members]
            real = np.bincount(cell.numpy(), weights=weights, minlength=cells)
            found.append(real + n / clusters * random.multinomial(added, unrelated))
        yield np.stack(found).reshape(-1, *shape).astype(np.float64)


def _null_tables(counts: Table, draws: int, random: np.random.Generator) -> Table:
    """Tables of a column that is shuffled against the other, (draws, *shape).

    Their distribution is known, so that they are drawn at a cost that does not grow with the
    number of samples. Row by row, a class gets its samples from those of each value that are left.
    """
    left = np.tile(counts.sum(0).astype(np.int64), (draws, 1))
    tables = np.empty((draws, *counts.shape))
    for row, size in enumerate(counts.sum(1).astype(np.int64)):
        rest = left.copy()  # (draws, values) from which the samples of this class still come
        needed = np.full(draws, size)
        for column in range(counts.shape[1]):
            others = rest[:, column + 1 :].sum(1)
            drawn = random.hypergeometric(rest[:, column], others, needed)
            tables[:, row, column] = drawn
            needed -= drawn
        left -= tables[:, row].astype(np.int64)
    return tables


def _shuffled(
    targets: Tensor,
    values: Tensor,
    cluster: Tensor | None,
    count: int,
    random: np.random.Generator,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Targets and values, one of which is shuffled, by cluster if there are clusters.

    With clusters it is the column that is constant in more of them: only clusters of one label can
    exchange it.
    """
    if cluster is None:
        for _ in range(count):
            yield targets, torch.from_numpy(random.permutation(values.numpy()))
        return
    whole = [int(cluster_constant(column, cluster).sum()) for column in (targets, values)]
    moved = targets if whole[0] > whole[1] else values
    generator = torch.Generator().manual_seed(int(random.integers(2**62)))
    size = max(1, _CHUNK // len(targets))
    for start in range(0, count, size):
        number = min(size, count - start)
        strata = torch.zeros_like(moved)
        for copy in shuffled_clusters(moved, strata, cluster, count=number, generator=generator):
            yield (copy, values) if moved is targets else (targets, copy)


def _phi_squared(counts: Table) -> npt.NDArray[np.float64]:
    """Pearson's chi-squared over n, for each table."""
    n = np.maximum(counts.sum((-1, -2)), 1)[..., None, None]
    expected = counts.sum(-1, keepdims=True) * counts.sum(-2, keepdims=True) / n
    terms = np.divide(
        (counts - expected) ** 2, expected, out=np.zeros_like(counts), where=expected > 0
    )
    result: npt.NDArray[np.float64] = terms.sum((-1, -2)) / n[..., 0, 0]
    return result


def _entropy(p: Table) -> npt.NDArray[np.float64]:
    logarithm = np.log(p, out=np.zeros_like(p), where=p > 0)
    result: npt.NDArray[np.float64] = -(p * logarithm).sum(-1)
    return result
