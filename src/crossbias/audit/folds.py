"""Folds of cross-validation, with every class spread evenly over them."""

from typing import Final

import torch
from torch import Tensor

from crossbias.data.assignment import shuffled

FOLDS: Final = 5  # largest number of folds


def stratified_folds(labels: Tensor, *, folds: int, generator: torch.Generator) -> Tensor:
    """The fold of each sample, (n,); in each class the folds' sizes differ by at most one.

    >>> folds = stratified_folds(torch.tensor([0] * 6 + [1] * 3), folds=3,
    ...                          generator=torch.Generator())
    >>> torch.bincount(folds[:6]).tolist(), torch.bincount(folds[6:]).tolist()
    ([2, 2, 2], [1, 1, 1])
    """
    fold = torch.empty_like(labels)
    for label in torch.bincount(labels).nonzero().squeeze(1).tolist():
        rows = shuffled((labels == label).nonzero().squeeze(1), generator)
        # If every class started with fold 0, the first folds would get all the remainders.
        fold[rows] = (torch.arange(len(rows)) + label) % folds
    return fold


def num_present(labels: Tensor) -> int:
    """How many different labels there are."""
    return int((torch.bincount(labels, minlength=1) > 0).sum())


def testable(labels: Tensor) -> Tensor:
    """Which samples can be cross-validated, (n,) bool: those whose class has two or more."""
    return torch.bincount(labels, minlength=1)[labels] >= 2


def fitting_folds(labels: Tensor) -> int:
    """As many folds as the smallest class has samples, at least 2 and at most ``FOLDS``."""
    counts = torch.bincount(labels)
    return max(2, min(FOLDS, int(counts[counts > 0].min())))
