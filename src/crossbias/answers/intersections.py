"""Groups that a model fails: attributes and their intersections, tested with one error rate."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from crossbias.errors import CrossbiasError
from crossbias.verify import MIN_SAMPLES, Estimate, Metrics, holm
from crossbias.verify.intervals import wilson_size

ALARM: Final = 0.05
"""Probability that any group is flagged where the model fails none more than the others."""

MOST_COMBINATIONS: Final = 300
"""More attributes and intersections than this are refused: few would have enough samples."""

Attribute = tuple[str, ...]
"""The columns of an attribute; several for an intersection."""


class FlaggedGroup(NamedTuple):
    """A group on which the model is right less often than on the other samples of the class."""

    attribute: Attribute
    target: str
    value: str
    accuracy: Estimate
    others: float  # accuracy on the other samples of the class
    p: float  # corrected for all groups that were tested


class Scan(NamedTuple):
    """What was found among the groups of all attributes and intersections."""

    flagged: tuple[FlaggedGroup, ...]  # lowest p first
    tested: int
    too_small: int  # groups of fewer than MIN_SAMPLES samples, which are not tested
    attributes: tuple[Attribute, ...]


def with_intersections(attributes: Sequence[Attribute], depth: int) -> list[Attribute]:
    """The attributes, and all combinations of up to ``depth`` of their columns.

    >>> with_intersections([("sex",), ("site",)], 2)
    [('sex',), ('site',), ('sex', 'site')]
    """
    if depth < 1:
        raise CrossbiasError(f"--intersections is a number of columns from 1, got {depth}")
    columns = list(dict.fromkeys(column for parts in attributes for column in parts))
    if depth > len(columns) and depth > 1:
        raise CrossbiasError(
            f"--intersections {depth} takes {depth} columns, and {len(columns)} are named "
            f"({', '.join(columns) or 'none'}); name more: --bias"
        )
    found = list(attributes)
    known = {frozenset(parts) for parts in attributes}
    for size in range(2, depth + 1):
        further = [each for each in combinations(columns, size) if frozenset(each) not in known]
        found += further
    if len(found) > MOST_COMBINATIONS:
        raise CrossbiasError(
            f"{len(columns)} columns have {len(found):,} intersections of up to {depth}, more than "
            f"{MOST_COMBINATIONS}; name fewer columns or a lower --intersections"
        )
    return found


def scan(by_attribute: Mapping[Attribute, Metrics]) -> Scan:
    """Test every group of enough samples against the other samples of its class.

    Fisher's exact test, one-sided: is the model right less often in the group? Comparing within a
    class keeps a group with more samples of a hard class from being flagged for that. Holm's method
    corrects for all groups of all attributes and intersections together.

    Args:
        by_attribute: The metrics with respect to each attribute.
    """
    found: list[FlaggedGroup] = []
    small = 0
    for attribute, metrics in by_attribute.items():
        tested, too_small = _tests(attribute, metrics)
        found += tested
        small += too_small
    corrected = holm([group.p for group in found])
    groups = [group._replace(p=p) for group, p in zip(found, corrected, strict=True)]
    flagged = sorted((group for group in groups if group.p < ALARM), key=lambda group: group.p)
    return Scan(tuple(flagged), len(found), small, tuple(by_attribute))


def _tests(attribute: Attribute, metrics: Metrics) -> tuple[list[FlaggedGroup], int]:
    """The groups of one attribute with their uncorrected p, and how many are too small."""
    # With clusters or weights, a group says as much as so many independent samples.
    worth = {group[:2]: wilson_size(group.accuracy) for group in metrics.groups}
    large = [group for group in metrics.groups if round(worth[group[:2]]) >= MIN_SAMPLES]
    totals: dict[str, list[float]] = {}
    for group in metrics.groups:
        parts = (_right(group.accuracy), group.accuracy.n, worth[group[:2]])
        before = totals.setdefault(group.target, [0.0, 0.0, 0.0])
        totals[group.target] = [old + new for old, new in zip(before, parts, strict=True)]
    found = []
    for group in large:
        right, n, all_worth = totals[group.target]
        others = n - group.accuracy.n
        if others:
            rate = (right - _right(group.accuracy)) / others
            own, rest = worth[group[:2]], all_worth - worth[group[:2]]
            counts = (group.accuracy.value * own, own, rate * rest, rest)
            p = fisher_lower(*map(round, counts))
            found.append(FlaggedGroup(attribute, *group, rate, p))
    return found, len(metrics.groups) - len(large)


def _right(accuracy: Estimate) -> float:
    return accuracy.value * accuracy.n


def fisher_lower(right: int, n: int, right_of_others: int, others: int) -> float:
    """Fisher's exact test, one-sided: p of so few right ones in a group, if it is like the others.

    It is the lower tail of the hypergeometric distribution, summed downward from ``right``, where
    terms only shrink. A share that is not lower than that of the others has p = 1.

    >>> round(fisher_lower(3, 10, 90, 100), 6)
    5.6e-05
    """
    from scipy.special import gammaln

    if not others or right * others >= right_of_others * n:
        return 1.0
    whole, all_right = n + others, right + right_of_others

    def log_choose(total: int, some: int) -> float:
        return float(gammaln(total + 1) - gammaln(some + 1) - gammaln(total - some + 1))

    start = log_choose(all_right, right) + log_choose(whole - all_right, n - right)
    start -= log_choose(whole, n)
    spread = math.sqrt(n * all_right / whole * (1 - all_right / whole))
    fewest = max(0, n - (whole - all_right), right - math.ceil(40 * spread) - 40)
    down = np.arange(right, fewest, -1, dtype=np.float64)
    ratios = down * (whole - all_right - n + down) / ((all_right - down + 1) * (n - down + 1))
    return min(1.0, float(np.exp(start) * (1 + np.cumprod(ratios).sum())))
