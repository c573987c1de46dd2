"""Slices: samples of one class with similar features on which a model fails together.

Slices are found in one half of the samples and confirmed in the other. Looking for them in the
first half costs nothing there, so the p-values of the second half are exact, however many slices
were looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from crossbias.audit.folds import random_folds
from crossbias.audit.permutation import (
    ALARM,
    enough_permutations,
    holm,
    p_value,
    shuffled_clusters,
)
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import as_json
from crossbias.seeds import generator_for, seed_for
from crossbias.types import UNKNOWN
from crossbias.verify import Estimate
from crossbias.verify.clusters import share_of

FEWEST: Final = 40  # samples of a class in each half, to look for slices in it

_SMALLEST: Final = 8  # samples of a slice in each half
_NUMBERS: Final = (2, 3, 4, 6, 8)  # of groups into which a class is cut
_TYPICAL: Final = 15  # samples of a group in the first half, on average at least
_MOST: Final = 3  # slices of a class that are tested
_PROMISING: Final = 0.1  # p-value in the first half of a slice that is tested in the second
_PERMUTATIONS: Final = 999  # where samples are in clusters
_DIMENSIONS: Final = 16  # of the features that are clustered
_PROJECTED: Final = 64  # random directions that stand for more features than this
_STARTS, _ROUNDS = 3, 30  # of k-means
_CLEAR: Final = 0.1  # how much more frequent a value must be in a slice that it explains
_EXPLANATIONS: Final = 3  # values named for a slice


class Explanation(NamedTuple):
    """A value of an attribute that is more frequent in a slice than in the rest of its class."""

    attribute: str
    value: str
    inside: float  # share of the slice's samples
    outside: float  # share of the other samples of the class


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Samples of one class that look alike to a model and that it fails on together.

    All numbers are about the second half of the samples, in which nothing was searched.
    """

    target: str
    answer: str  # the most frequent wrong answer
    errors: Estimate
    rest: Estimate  # errors on the other samples of the class
    p: float
    p_corrected: float | None = None
    explained_by: tuple[Explanation, ...] = ()
    rows: tuple[int, ...] = ()  # positions of its samples in the data, of both halves
    held_out: tuple[int, ...] = ()  # those of the second half

    def to_json(self) -> dict[str, Any]:
        """The slice as ``audit.json`` has it, without the positions of its samples."""
        return {
            key: as_json(part)
            for key, part in vars(self).items()
            if key not in ("rows", "held_out")
        }


@dataclass(frozen=True, kw_only=True)
class Slices:
    """The confirmed slices of a model, and how many were tested."""

    tested: int
    found: tuple[Slice, ...]  # the one with the highest error rate first
    reason: str | None = None  # why nothing could be tested


def find_slices(
    features: Tensor | None, answers: Tensor, data: BiasedDataset, *, seed: int
) -> Slices:
    """Look for slices in one half of the samples, and confirm them in the other.

    Args:
        features: ``(n, D)`` what the model makes of each sample; None where it gives none.
        answers: ``(n,)`` class numbers that the model answers.
        data: Targets, attributes and clusters. Samples of a cluster are in the same half.
        seed: Seed of the halves and of the search.
    """
    if features is None:
        return Slices(tested=0, found=(), reason="the model gives no features")
    draw = generator_for(seed, "slices", "halves")
    second = random_folds(len(data), folds=2, generator=draw, cluster=data.cluster) == 1
    wrong = answers != data.targets
    searched = list(_large_classes(data.targets, second, data.num_classes))
    if not searched:
        return Slices(
            tested=0,
            found=(),
            reason=f"no class has {2 * FEWEST} samples, {FEWEST} in each half of the data",
        )
    candidates = []
    for target, rows in searched:
        own = seed_for(seed, "slices", target)
        halves = reduced(features, *rows, seed=own)
        promising = _promising(*halves, wrong[rows[0]], seed=own)
        candidates += [(target, rows, *members) for members in promising]
    tested = [
        _tested(data, answers, wrong, *each, tests=len(candidates), seed=seed)
        for each in candidates
    ]
    corrected = holm([each.p for each in tested])
    found = [
        replace(each, p_corrected=p)
        for each, p in zip(tested, corrected, strict=True)
        if p <= ALARM
    ]
    found.sort(key=lambda each: -each.errors.value)
    return Slices(tested=len(tested), found=tuple(_explained(found, data, second, seed)))


def _large_classes(
    targets: Tensor, second: Tensor, classes: int
) -> Iterator[tuple[int, tuple[Tensor, Tensor]]]:
    """Classes that are large enough to search in, each with its rows in both halves."""
    for target in range(classes):
        of_class = targets == target
        rows = (of_class & ~second).nonzero().squeeze(1), (of_class & second).nonzero().squeeze(1)
        if min(map(len, rows)) >= FEWEST:
            yield target, rows


def excess_p(
    flags: Tensor, members: Tensor, *, cluster: Tensor | None, permutations: int, seed: int
) -> float:
    """How likely flags would be as frequent among members, if they had nothing to do with them.

    Without clusters this is Fisher's exact test, one-sided; with clusters, memberships are
    shuffled by cluster.

    Args:
        flags: ``(n,)`` bool, such as errors.
        members: ``(n,)`` bool.
        cluster: ``(n,)`` int64, or None where all samples are independent.
        permutations: Number of shuffles.
        seed: Seed of the shuffles.

    >>> flags = torch.tensor([True, True, False, False])
    >>> round(excess_p(flags, flags, cluster=None, permutations=0, seed=0), 4)  # 1 of 6 choices
    0.1667
    """
    if cluster is None:
        from scipy.stats import hypergeom

        both, sizes = int((flags & members).sum()), (int(flags.sum()), int(members.sum()))
        return float(hypergeom.sf(both - 1, len(flags), *sizes))
    copies = shuffled_clusters(
        members.long(), torch.zeros_like(cluster), cluster, count=permutations,
        generator=generator_for(seed, "members"),
    )  # fmt: skip
    null = _differences(flags, copies.bool())
    return p_value(float(_differences(flags, members[None])), null)


def reduced(features: Tensor, first: Tensor, second: Tensor, *, seed: int) -> tuple[Tensor, Tensor]:
    """The features of both halves of a class in the directions in which the first varies most."""
    points = features[torch.cat([first, second])].double()
    if points.shape[1] > _PROJECTED:
        draw = generator_for(seed, "features")
        directions = torch.randn(points.shape[1], _PROJECTED, dtype=torch.float64, generator=draw)
        points = points @ directions / _PROJECTED**0.5
    points = points - points[: len(first)].mean(0)
    own = points[: len(first)]
    _, vectors = torch.linalg.eigh(own.T @ own)
    points = points @ vectors[:, -_DIMENSIONS:]
    return points[: len(first)], points[len(first) :]


def k_means(points: Tensor, number: int, *, generator: torch.Generator) -> Tensor:
    """Centers (number, d) of groups of points (n, d): Lloyd's algorithm from k-means++ starts."""
    best, lowest = points[:number], float("inf")
    for _ in range(_STARTS):
        centers = _spread(points, number, generator)
        for _ in range(_ROUNDS):
            group = torch.cdist(points, centers).argmin(1)
            sums = torch.zeros_like(centers).index_add_(0, group, points)
            sizes = torch.bincount(group, minlength=number)[:, None]
            moved = torch.where(sizes > 0, sums / sizes.clamp(min=1), centers)
            if torch.equal(moved, centers):
                break
            centers = moved
        inertia = float(torch.cdist(points, centers).amin(1).square().sum())
        if inertia < lowest:
            best, lowest = centers, inertia
    return best


def _spread(points: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Starting centers that are far apart (k-means++, Arthur & Vassilvitskii 2007)."""
    chosen = [int(torch.randint(len(points), (1,), generator=generator))]
    for _ in range(number - 1):
        distance = torch.cdist(points, points[chosen]).amin(1).square()
        if not distance.sum() > 0:  # all points are centers already
            distance = torch.ones_like(distance)
        chosen.append(int(torch.multinomial(distance, 1, generator=generator)))
    return points[chosen]


def _promising(
    first: Tensor, second: Tensor, wrong: Tensor, *, seed: int
) -> list[tuple[Tensor, Tensor]]:
    """Members in both halves of the groups that seem to fail most in the first half.

    Several numbers of groups are tried. Of groups that have half of their samples in common, the
    one with the lowest p-value is taken.

    Args:
        first: ``(m, d)`` features of the first half.
        second: ``(n, d)`` features of the second half.
        wrong: ``(m,)`` bool, errors in the first half.
        seed: Seed of k-means.
    """
    tried = []
    for number in _NUMBERS:
        if number > 2 and len(first) < number * _TYPICAL:
            break
        centers = k_means(first, number, generator=generator_for(seed, "k-means", number))
        groups = [torch.cdist(points, centers).argmin(1) for points in (first, second)]
        for group in range(number):
            members = groups[0] == group, groups[1] == group
            if min(int(part.sum()) for part in members) >= _SMALLEST:
                p = excess_p(wrong, members[0], cluster=None, permutations=0, seed=0)
                tried.append((p, members))
    kept: list[tuple[Tensor, Tensor]] = []
    for p, members in sorted(tried, key=lambda each: each[0]):
        if p <= _PROMISING and len(kept) < _MOST and not any(
            _overlap(members[0], other[0]) > 0.5 for other in kept
        ):  # fmt: skip
            kept.append(members)
    return kept


def _overlap(one: Tensor, other: Tensor) -> float:
    """The share that two groups have in common of the smaller of them."""
    return int((one & other).sum()) / max(1, min(int(one.sum()), int(other.sum())))


def _tested(
    data: BiasedDataset,
    answers: Tensor,
    wrong: Tensor,
    target: int,
    rows: tuple[Tensor, Tensor],
    first: Tensor,
    second: Tensor,
    *,
    tests: int,
    seed: int,
) -> Slice:
    """A slice with its test in the second half."""
    held_out, rest = rows[1][second], rows[1][~second]
    p = excess_p(
        wrong[rows[1]], second, cluster=_at(data.cluster, rows[1]),
        permutations=enough_permutations(_PERMUTATIONS, tests=tests), seed=seed,
    )  # fmt: skip
    mistakes = answers[held_out][wrong[held_out]]
    usual = int(torch.bincount(mistakes, minlength=1).argmax()) if len(mistakes) else target
    return Slice(
        target=data.classes[target],
        answer=data.classes[usual],
        errors=share_of(wrong[held_out], _at(data.cluster, held_out)),
        rest=share_of(wrong[rest], _at(data.cluster, rest)),
        p=p,
        rows=tuple(torch.cat([rows[0][first], held_out]).sort().values.tolist()),
        held_out=tuple(held_out.tolist()),
    )


def _explained(
    found: Sequence[Slice], data: BiasedDataset, second: Tensor, seed: int
) -> Iterator[Slice]:
    """The slices with the values of attributes that are clearly more frequent in them."""
    questions = [
        (place, name, number)
        for place in range(len(found))
        for name, values in data.values.items()
        for number in range(len(values))
    ]
    permutations = enough_permutations(_PERMUTATIONS, tests=len(questions))
    compared = [_compared(found[place], data, second, name, number, permutations, seed)
                for place, name, number in questions]  # fmt: skip
    corrected = holm([p for p, _ in compared])
    for place, each in enumerate(found):
        named = [
            explanation
            for (own, _, _), (_, explanation), p in zip(questions, compared, corrected, strict=True)
            if own == place and p <= ALARM and explanation.inside - explanation.outside >= _CLEAR
        ]
        named.sort(key=lambda explanation: explanation.outside - explanation.inside)
        yield replace(each, explained_by=tuple(named[:_EXPLANATIONS]))


def _compared(
    found: Slice,
    data: BiasedDataset,
    second: Tensor,
    attribute: str,
    value: int,
    permutations: int,
    seed: int,
) -> tuple[float, Explanation]:
    """How a value is spread over a slice and the rest of its class, in the second half."""
    column = data.attributes[attribute]
    of_class = data.targets == data.classes.index(found.target)
    rows = (of_class & second & (column != UNKNOWN)).nonzero().squeeze(1)
    inside = torch.isin(rows, torch.tensor(found.held_out))
    flags, name = column[rows] == value, data.values[attribute][value]
    if not inside.any() or inside.all() or not flags.any():
        return 1.0, Explanation(attribute, name, 0.0, 0.0)
    p = excess_p(
        flags, inside, cluster=_at(data.cluster, rows), permutations=permutations, seed=seed
    )
    shares = (float(flags[part].double().mean()) for part in (inside, ~inside))
    return p, Explanation(attribute, name, *shares)


def _differences(flags: Tensor, members: Tensor) -> Tensor:
    """How much more frequent flags (n,) are among each row of members (B, n) than elsewhere."""
    inside, outside = members.double(), (~members).double()
    values = flags.double()
    share = (inside @ values) / inside.sum(1).clamp(min=1)
    return share - (outside @ values) / outside.sum(1).clamp(min=1)


def _at(cluster: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if cluster is None else cluster[rows]
