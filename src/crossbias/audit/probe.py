"""A cross-validated linear probe in closed form, with a cheap permutation test.

The covariance of all training samples does not depend on their labels, so it is factorized once
for each fold. Each shuffle of the labels then costs two matrix products and the solution of a
linear system with as many unknowns as there are classes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from crossbias.audit.folds import fitting_folds, stratified_folds
from crossbias.audit.permutation import p_value, shuffled_within
from crossbias.seeds import generator_for

_CHUNK = 2**24  # numbers of one-hot labels at a time


class Probe(NamedTuple):
    """How well features predict a label and, for comparison, shuffled labels; cross-validated."""

    balanced_accuracy: float  # mean of the classes' recalls
    accuracy: float  # if the probe prefers frequent classes
    null: Tensor  # (permutations,) balanced accuracies of shuffled labels
    p: float
    right: Tensor  # (n,) bool, whether each sample is answered correctly

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
) -> Probe:
    """Cross-validate a linear discriminant with shrunken covariance.

    Labels are shuffled within the folds, which are stratified at random. So if the features say
    nothing about the labels, all these orders are equally likely, and the p-value is exact.

    Args:
        features: ``(n, d)`` features.
        labels: ``(n,)`` int64; every label that occurs must occur at least twice.
        permutations: Number of shuffles.
        seed: Seed of folds and shuffles.
        given: ``(n,)`` int64, another label. Shuffles stay within its values too, so that the test
            is about what the features reveal beyond it.
    """
    present = torch.bincount(labels) > 0
    labels = (present.cumsum(0) - 1)[labels]  # numbered without gaps
    folds = fitting_folds(labels)
    fold = stratified_folds(labels, folds=folds, generator=generator_for(seed, "folds"))
    discriminant = _Discriminant.on(features, fold, torch.bincount(labels))
    balanced, accuracy, right = discriminant.scores(labels[None])
    strata = fold if given is None else fold + folds * given
    shuffles = shuffled_within(
        labels, strata, count=permutations, generator=generator_for(seed, "shuffles")
    )
    rows = max(1, _CHUNK // (len(labels) * len(discriminant.counts)))
    parts = [discriminant.scores(some)[0] for some in shuffles.split(rows)]  # type: ignore[no-untyped-call]
    null = torch.cat(parts)
    observed = float(balanced)
    return Probe(observed, float(accuracy), null, p_value(observed, null), right[0])


@dataclass(frozen=True)
class _Discriminant:
    """Linear discriminants of features that are standardized and cut into folds."""

    parts: list[Tensor]  # for each fold, (n_f, d) standardized features
    rows: list[Tensor]  # for each fold, positions in the data
    counts: Tensor  # (K,) number of samples of each label

    @classmethod
    def on(cls, features: Tensor, fold: Tensor, counts: Tensor) -> "_Discriminant":
        features = standardized(features)
        rows = [(fold == number).nonzero().squeeze(1) for number in range(int(fold.max()) + 1)]
        return cls([features[some] for some in rows], rows, counts)

    def scores(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cross-validated balanced accuracy and accuracy of each row of labels (B, n).

        Also whether each sample is answered correctly with equal priors, (B, n).
        """
        right = torch.zeros_like(labels, dtype=torch.bool)
        balanced = torch.zeros(len(labels), dtype=torch.float64)
        accuracy = torch.zeros_like(balanced)
        one_hots = [_one_hot(labels[:, rows], len(self.counts)) for rows in self.rows]
        sums = [hot @ part for hot, part in zip(one_hots, self.parts, strict=True)]  # (B, K, d)
        total, weight = torch.stack(sums).sum(0), 1 / self.counts.double()
        for number, (part, rows) in enumerate(zip(self.parts, self.rows, strict=True)):
            here = labels[:, rows]
            train_counts = (self.counts - one_hots[number][0].sum(1)).double()  # (K,)
            means = (total - sums[number]).double() / train_counts[:, None]
            others = torch.cat([p for other, p in enumerate(self.parts) if other != number])
            directions, offsets = _directions(others.double(), means, train_counts)
            values = torch.einsum("nd,bdk->bnk", part, directions.float()) + offsets.float()
            right[:, rows] = values.argmax(2) == here
            balanced += (weight[here] * right[:, rows]).sum(1)
            values += (train_counts / train_counts.sum()).log().float()
            accuracy += (values.argmax(2) == here).sum(1)
        return balanced / len(self.counts), accuracy / labels.shape[1], right


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
    root = (counts / counts.sum()).sqrt()  # (K,)
    centered = means - center  # (B, K, d)
    weighted = centered * root[:, None]
    flat = weighted.reshape(-1, dimensions).T  # (d, B K)
    solved = torch.cholesky_solve(flat, torch.linalg.cholesky(covariance))
    a = solved.T.view(weighted.shape).transpose(1, 2)  # (B, d, K)
    inner = torch.eye(len(counts), dtype=a.dtype) - (1 - shrinkage) * weighted @ a
    directions = torch.linalg.solve(inner, a, left=False) / root
    offsets = -(centered.transpose(1, 2) * directions).sum(1, keepdim=True) / 2
    return directions, offsets - torch.einsum("d,bdk->bk", center, directions)[:, None]
