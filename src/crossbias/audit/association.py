"""How strongly two columns of labels are associated: Cramer's V and mutual information."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from crossbias.verify import Estimate
from crossbias.verify.bootstrap import percentile

Table = npt.NDArray[np.float64]


class Strength(NamedTuple):
    """Two measures of association with their bootstrap intervals, and a permutation p-value."""

    cramers_v: Estimate
    mutual_information: Estimate
    p: float


def cramers_v(counts: Table, *, corrections: int = 1) -> npt.NDArray[np.float64]:
    r"""Cramer's V with Bergsma's correction (2013), which is near 0 for independent columns.

    .. math:: \tilde V = \sqrt{\frac{\max(0, \phi^2 - \frac{(r-1)(c-1)}{n-1})}
        {\min(\tilde r, \tilde c) - 1}}, \qquad \tilde r = r - \frac{(r-1)^2}{n-1}

    Args:
        counts: ``(..., rows, columns)`` tables; empty rows and columns do not count.
        corrections: How many times the excess expected under independence is subtracted; 0 gives
            the classical V.

    Returns:
        ``(...)`` numbers from 0 to 1; 0 if only one row or column is filled.

    >>> float(cramers_v(np.array([[50.0, 0.0], [0.0, 50.0]])).round(3))
    1.0
    """
    n = counts.sum((-1, -2))
    rows, columns = (counts.sum(axis) > 0 for axis in (-1, -2))
    r, c = rows.sum(-1).astype(np.float64), columns.sum(-1).astype(np.float64)
    below = np.maximum(n - 1, 1)
    once = min(corrections, 1)
    excess = np.maximum(0.0, _phi_squared(counts) - corrections * (r - 1) * (c - 1) / below)
    shrunk = np.minimum(r - once * (r - 1) ** 2 / below, c - once * (c - 1) ** 2 / below) - 1
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


def count_table(targets: Tensor, values: Tensor, shape: tuple[int, int]) -> Table:
    """Number of samples of each (target, value) pair, as floating-point numbers."""
    cells = torch.bincount(targets * shape[1] + values, minlength=math.prod(shape))
    return cells.view(shape).double().numpy()


def strength_of(
    targets: Tensor, values: Tensor, *, shape: tuple[int, int], permutations: int, seed: int
) -> Strength:
    """Both measures with 95% bootstrap intervals, and the p-value of independence.

    Every value is known. ``shape`` is the number of classes and of values; ``permutations`` is the
    number of shuffles of the values behind the p-value, and of bootstrap tables.
    """
    random = np.random.default_rng(seed)
    counts = count_table(targets, values, shape)
    n = len(targets)
    drawn = random.multinomial(n, counts.ravel() / n, size=permutations)
    tables = drawn.reshape(-1, *shape).astype(np.float64)
    # With the margins fixed, chi-squared grows with this weighted sum of squares.
    margins = counts.sum(1, keepdims=True) * counts.sum(0)
    weight = np.divide(1.0, margins, out=np.zeros_like(counts), where=margins > 0)
    statistic = (weight * counts**2).sum()
    reached = 1  # the observed order is one of the possible ones
    column = values.numpy()
    for _ in range(permutations):
        table = count_table(targets, torch.from_numpy(random.permutation(column)), shape)
        reached += bool((weight * table**2).sum() >= statistic - 1e-12)
    return Strength(
        # A resampled table exceeds independence twice: by the chance in the sample and by its own.
        percentile(float(cramers_v(counts)), cramers_v(tables, corrections=2), n),
        percentile(float(mutual_information(counts)), mutual_information(tables), n),
        reached / (1 + permutations),
    )


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
