"""The accuracies reported for every run, each a function of the cells, and their weights."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crossbias.verify.cells import Cells, Group
from crossbias.verify.intervals import (
    NO_SAMPLES,
    Estimate,
    lowest_of,
    mean_of_groups,
    wilson,
)


def overall(cells: Cells) -> Estimate:
    """Accuracy over all samples, whether their bias is known or not."""
    return accuracy(cells.correct, cells.total)


def aligned(cells: Cells) -> Estimate:
    """Accuracy over the samples of aligned groups."""
    return accuracy(cells.correct[:, :-1][cells.alignment], cells.total[:, :-1][cells.alignment])


def conflicting(cells: Cells) -> Estimate:
    """Accuracy over the samples of all groups that are not aligned."""
    return accuracy(cells.correct[:, :-1][~cells.alignment], cells.total[:, :-1][~cells.alignment])


def unbiased(cells: Cells) -> Estimate:
    """Mean over the groups that have samples, each counting the same."""
    return mean_accuracy(cells.correct[:, :-1], cells.total[:, :-1])


def per_class(cells: Cells) -> tuple[Estimate, ...]:
    """Accuracy over all samples of each class: its recall."""
    return tuple(map(wilson, cells.correct.sum(1).tolist(), cells.total.sum(1).tolist()))


def class_averaged(cells: Cells) -> Estimate:
    """Mean over the classes that have samples, each counting the same: balanced accuracy."""
    return mean_accuracy(cells.correct.sum(1), cells.total.sum(1))


def by_group(cells: Cells) -> tuple[Group, ...]:
    """Every (target, bias) pair, empty ones too, class by class."""
    right, known = cells.correct[:, :-1].tolist(), cells.total[:, :-1].tolist()
    return tuple(
        Group(target, bias, wilson(right[row][column], known[row][column]))
        for row, target in enumerate(cells.classes)
        for column, bias in enumerate(cells.biases)
    )


def worst_group(cells: Cells) -> Group:
    """The group with the lowest accuracy; ties go to the first by class and then bias value.

    Its interval is about the lowest true accuracy of any group, see ``lowest_of``: it takes into
    account that the group was picked for being lowest. If no sample's bias is known, the group
    has no name and ``NO_SAMPLES``.
    """
    right, known = cells.correct[:, :-1].numpy(), cells.total[:, :-1].numpy()
    if not known.any():
        return Group("", "", NO_SAMPLES)
    rates = np.where(known > 0, right / np.maximum(known, 1), np.inf)
    row, column = np.unravel_index(rates.argmin(), rates.shape)  # the first of equals
    lowest = lowest_of(right.flatten().tolist(), known.flatten().tolist())
    return Group(cells.classes[row], cells.biases[column], lowest)


def accuracy(correct: Tensor, total: Tensor) -> Estimate:
    """The accuracy over all samples of some cells together."""
    return wilson(int(correct.sum()), int(total.sum()))


def mean_accuracy(correct: Tensor, total: Tensor, *, effect: float = 1.0) -> Estimate:
    """The mean of the accuracies of some cells; ``effect`` as for ``wilson``."""
    return mean_of_groups(correct.flatten().tolist(), total.flatten().tolist(), effect=effect)


def _by_samples(cells: Cells, counted: Tensor) -> Tensor:
    """Every sample of the counted cells counts the same."""
    total = cells.total.double() * counted
    return total / total.sum().clamp(min=1)


def _by_cells(cells: Cells, counted: Tensor) -> Tensor:
    """Every counted cell that has samples counts the same."""
    present = ((cells.total > 0) & counted).double()
    return present / present.sum().clamp(min=1)


def _by_classes(cells: Cells) -> Tensor:
    of_class = cells.total.sum(1, keepdim=True).double()
    return cells.total / of_class.clamp(min=1) / (of_class > 0).sum().clamp(min=1)


def _known(chosen: Tensor) -> Tensor:
    """A (classes, biases) mask with a further column: samples of unknown bias are left out."""
    return torch.cat([chosen, torch.zeros(len(chosen), 1, dtype=torch.bool)], dim=1)


WEIGHTS: Final[dict[str, Callable[[Cells], Tensor]]] = {
    "overall": lambda cells: _by_samples(cells, torch.ones_like(cells.total) > 0),
    "aligned": lambda cells: _by_samples(cells, _known(cells.alignment)),
    "conflicting": lambda cells: _by_samples(cells, _known(~cells.alignment)),
    "unbiased": lambda cells: _by_cells(cells, _known(torch.ones_like(cells.alignment))),
    "class_averaged": _by_classes,
    "biased": lambda cells: _by_cells(cells, _known(cells.alignment)),
}
"""For each accuracy, its (classes, biases + 1) weights; they sum to 1, or 0 without samples."""

OF_SAMPLES: Final = ("overall", "aligned", "conflicting")  # accuracies that are a mean of samples


class Strata(NamedTuple):
    """The parts of a split whose accuracies a metric averages."""

    part: Tensor  # (n,) of each sample
    weights: Tensor  # (parts,)


def stratified(name: str, cell: Tensor, weights: Tensor) -> Strata:
    """A mean over samples has one part: other samples would fall into the cells otherwise.

    Args:
        name: The metric.
        cell: ``(n,)`` the cell of each sample.
        weights: ``(classes, biases + 1)`` weight of each cell.
    """
    if name in OF_SAMPLES:
        counted = weights.flatten()[cell] > 0
        return Strata(counted.long(), torch.tensor([0.0, 1.0]))
    if name == "class_averaged":
        return Strata(cell // weights.shape[1], weights.sum(1))
    return Strata(cell, weights.flatten())
