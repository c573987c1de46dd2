"""A cross-validated linear probe in closed form, with a cheap permutation test.

The covariance of all training samples does not depend on their labels, so it is factorized once
for each fold. Each shuffle of the labels then costs two matrix products and the solution of a
linear system with as many unknowns as there are classes. The score is a mean over several random
divisions into folds, because that of a single one depends on chance.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from crossbias.audit.folds import FOLDS, random_folds
from crossbias.audit.permutation import p_value, shuffled_clusters, shuffled_within
from crossbias.seeds import generator_for

MOST_REPEATS: Final = 4  # divisions into folds
_SAMPLES: Final = 20_000  # samples of all divisions together: large data needs fewer of them

_CHUNK = 2**24  # numbers of one-hot labels at a time


class Probe(NamedTuple):
    """How well features predict a label and, for comparison, shuffled labels; cross-validated."""

    balanced_accuracy: float  # mean of the classes' recalls
    accuracy: float  # if the probe prefers frequent classes
    null: Tensor  # (permutations,) balanced accuracies of shuffled labels
    p: float
    right: Tensor  # (n,) bool, whether each sample is answered correctly, in the first division

    @property
    def control(self) -> float:
        """Mean balanced accuracy of shuffled labels."""
        return float(self.null.mean())


def probe(
    features: Tensor,
    labels: Tensor,
    *,
    permutations: int,
    seed: int,
    given: Tensor | None = None,
    cluster: Tensor | None = None,
) -> Probe:
    """Cross-validate a linear discriminant with shrunken covariance.

    The folds are drawn without looking at the labels, and the same folds serve the labels and all
    shuffles of them. So the mean score over all divisions is a function of the order of the labels
    alone. If the features say nothing about the labels, all orders are equally likely, and the
    p-value is exact.

    Args:
        features: ``(n, d)`` features.
        labels: ``(n,)`` int64; every label that occurs must occur at least twice, or in two
            clusters.
        permutations: Number of shuffles.
        seed: Seed of folds and shuffles.
        given: ``(n,)`` int64, another label. Shuffles stay within its values too, so that the test
            is about what the features reveal beyond it.
        cluster: ``(n,)`` int64, equal for samples that belong together. They are in the same fold,
            and labels are shuffled by cluster, see ``shuffled_clusters``.
    """
    present = torch.bincount(labels) > 0
    labels = (present.cumsum(0) - 1)[labels]  # numbered without gaps
    strata = torch.zeros_like(labels) if given is None else given
    draw = generator_for(seed, "shuffles")
    if cluster is None:
        shuffles = shuffled_within(labels, strata, count=permutations, generator=draw)
    else:
        shuffles = shuffled_clusters(labels, strata, cluster, count=permutations, generator=draw)
    orders = torch.cat([labels[None], shuffles])  # the observed order is the first
    features, classes = standardized(features), int(present.sum())
    scores, draw = [], generator_for(seed, "folds")
    for _ in range(repeats_for(len(labels))):
        fold = random_folds(len(labels), folds=FOLDS, generator=draw, cluster=cluster)
        scores.append(_Discriminant.on(features, fold, classes).all_scores(orders))
    balanced, accuracy = (torch.stack([each[part] for each in scores]).mean(0) for part in (0, 1))
    observed, null = float(balanced[0]), balanced[1:]
    return Probe(observed, float(accuracy[0]), null, p_value(observed, null), scores[0][2])


def repeats_for(samples: int) -> int:
    """How many divisions into folds are averaged: fewer for more samples, whose score varies less.

    >>> repeats_for(300), repeats_for(5_000), repeats_for(10_000), repeats_for(100_000)
    (4, 4, 2, 2)
    """
    return min(MOST_REPEATS, max(2, _SAMPLES // samples))


@dataclass(frozen=True)
class _Discriminant:
    """Linear discriminants of standardized features that are cut into folds."""

    parts: list[Tensor]  # for each fold, (n_f, d) features
    rows: list[Tensor]  # for each fold, positions in the data
    classes: int

    @classmethod
    def on(cls, features: Tensor, fold: Tensor, classes: int) -> "_Discriminant":
        rows = [(fold == number).nonzero().squeeze(1) for number in torch.unique(fold).tolist()]
        return cls([features[some] for some in rows], rows, classes)

    def all_scores(self, orders: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The scores of all orders of the labels (B, n), and the right answers to the first."""
        rows = max(1, _CHUNK // (orders.shape[1] * self.classes))
        parts = [self.scores(some) for some in orders.split(rows)]  # type: ignore[no-untyped-call]
        balanced, accuracy = (torch.cat([part[number] for part in parts]) for number in (0, 1))
        return balanced, accuracy, parts[0][2][0]

    def scores(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cross-validated balanced accuracy and accuracy of each row of labels (B, n).

        Also whether each sample is answered correctly with equal priors, (B, n).
        """
        right = torch.zeros_like(labels, dtype=torch.bool)
        balanced = torch.zeros(len(labels), dtype=torch.float64)
        accuracy = torch.zeros_like(balanced)
        one_hots = [_one_hot(labels[:, rows], self.classes) for rows in self.rows]
        sums = [hot @ part for hot, part in zip(one_hots, self.parts, strict=True)]  # (B, K, d)
        counts = [hot.sum(2).double() for hot in one_hots]  # (B, K)
        total, all_counts = torch.stack(sums).sum(0), torch.stack(counts).sum(0)
        for number, (part, rows) in enumerate(zip(self.parts, self.rows, strict=True)):
            here = labels[:, rows]
            # A class that is in one fold only has no training sample there; its mean is then 0.
            train_counts = (all_counts - counts[number]).clamp(min=1)
            means = (total - sums[number]).double() / train_counts[..., None]
            others = torch.cat([p for other, p in enumerate(self.parts) if other != number])
            directions, offsets = _directions(others.double(), means, train_counts)
            values = torch.einsum("nd,bdk->bnk", part, directions.float()) + offsets.float()
            right[:, rows] = values.argmax(2) == here
            balanced += (right[:, rows] / all_counts.gather(1, here)).sum(1)
            shares = train_counts / train_counts.sum(1, keepdim=True)
            accuracy += ((values + shares.log().float()[:, None]).argmax(2) == here).sum(1)
        return balanced / self.classes, accuracy / labels.shape[1], right


def standardized(features: Tensor) -> Tensor:
    """Columns with mean 0 and deviation 1, in float32; constant columns become 0."""
    features = features.double()
    deviation, mean = torch.std_mean(features, 0, correction=0)
    # Because of rounding, the deviation of a constant column may be slightly above 0.
    varies = deviation > 1e-9 * (1 + mean.abs())
    return torch.where(varies, (features - mean) / deviation.clamp(min=1e-300), 0.0).float()


def _one_hot(labels: Tensor, classes: int) -> Tensor:
    """Labels (B, n) as (B, K, n) float32."""
    hot = torch.zeros(len(labels), classes, labels.shape[1])
    return hot.scatter_(1, labels[:, None], 1.0)


def _directions(train: Tensor, means: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Directions (B, d, K) and offsets (B, 1, K) of Fisher's discriminant with equal priors.

    Let S be the covariance of all samples, shrunken as (1 - g) S + g I with g = d / (d + n), and M
    the means of the classes, weighted by the root of their shares. Then the within-class
    covariance is S - (1 - g) M'M, and by Woodbury's identity its inverse applied to M' is

        A (I - (1 - g) M A)^-1,   A = S^-1 M'.
    """
    n, dimensions = train.shape
    center = train.mean(0)
    shrinkage = dimensions / (dimensions + n)
    covariance = (1 - shrinkage) * (train - center).T @ (train - center) / n
    covariance.diagonal().add_(shrinkage)
    root = (counts / counts.sum(1, keepdim=True)).sqrt()  # (B, K)
    centered = means - center  # (B, K, d)
    weighted = centered * root[..., None]
    flat = weighted.reshape(-1, dimensions).T  # (d, B K)
    solved = torch.cholesky_solve(flat, torch.linalg.cholesky(covariance))
    a = solved.T.view(weighted.shape).transpose(1, 2)  # (B, d, K)
    inner = torch.eye(counts.shape[1], dtype=a.dtype) - (1 - shrinkage) * weighted @ a
    directions = torch.linalg.solve(inner, a, left=False) / root[:, None]
    offsets = -(centered.transpose(1, 2) * directions).sum(1, keepdim=True) / 2
    return directions, offsets - torch.einsum("d,bdk->bk", center, directions)[:, None]
