"""The accuracies reported for every run, each a function of the cells, and their weights."""

from collections.abc import Callable
from typing import Final, NamedTuple

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
    return accuracy(cells.correct[cells.aligned], cells.total[cells.aligned])


def conflicting(cells: Cells) -> Estimate:
    """Accuracy over the samples of all groups that are not aligned."""
    chosen = cells.known & ~cells.aligned
    return accuracy(cells.correct[chosen], cells.total[chosen])


def unbiased(cells: Cells) -> Estimate:
    """Mean over the groups that have samples, each counting the same."""
    return mean_accuracy(cells.correct[cells.known], cells.total[cells.known])


def per_class(cells: Cells) -> tuple[Estimate, ...]:
    """Accuracy over all samples of each class: its recall."""
    right, all_ = (cells.of_classes(part).tolist() for part in (cells.correct, cells.total))
    return tuple(map(wilson, right, all_))


def class_averaged(cells: Cells) -> Estimate:
    """Mean over the classes that have samples, each counting the same: balanced accuracy."""
    return mean_accuracy(cells.of_classes(cells.correct), cells.of_classes(cells.total))


def by_group(cells: Cells) -> tuple[Group, ...]:
    """Every (target, bias) pair that has samples, class by class."""
    parts = (cells.target, cells.bias, cells.correct, cells.total)
    listed = zip(*(part[cells.known].tolist() for part in parts), strict=True)
    return tuple(
        Group(cells.classes[target], cells.biases[bias], wilson(right, all_))
        for target, bias, right, all_ in listed
    )


def worst_group(cells: Cells) -> Group:
    """The group with the lowest accuracy; ties go to the first by class and then bias value.

    Its interval is about the lowest true accuracy of any group, see ``lowest_of``: it takes into
    account that the group was picked for being lowest. If no sample's bias is known, the group
    has no name and ``NO_SAMPLES``.
    """
    if not cells.labeled:
        return Group("", "", NO_SAMPLES)
    right, all_ = (part[cells.known].numpy() for part in (cells.correct, cells.total))
    place = int((right / all_).argmin())  # the first of equals
    target, bias = (int(part[cells.known][place]) for part in (cells.target, cells.bias))
    lowest = lowest_of(right.tolist(), all_.tolist())
    return Group(cells.classes[target], cells.biases[bias], lowest)


def accuracy(correct: Tensor, total: Tensor) -> Estimate:
    """The accuracy over all samples of some cells together."""
    return wilson(int(correct.sum()), int(total.sum()))


def mean_accuracy(correct: Tensor, total: Tensor) -> Estimate:
    """The mean of the accuracies of some cells."""
    return mean_of_groups(correct.flatten().tolist(), total.flatten().tolist())


def _by_samples(cells: Cells, counted: Tensor) -> Tensor:
    """Every sample of the counted cells counts the same."""
    total = cells.total.double() * counted
    return total / total.sum().clamp(min=1)


def _by_cells(cells: Cells, counted: Tensor) -> Tensor:
    """Every counted cell counts the same."""
    return counted.double() / counted.sum().clamp(min=1)


def _by_classes(cells: Cells) -> Tensor:
    of_class = cells.of_classes(cells.total)
    return cells.total / of_class[cells.target].double() / (of_class > 0).sum().clamp(min=1)


WEIGHTS: Final[dict[str, Callable[[Cells], Tensor]]] = {
    "overall": lambda cells: _by_samples(cells, torch.ones_like(cells.known)),
    "aligned": lambda cells: _by_samples(cells, cells.aligned),
    "conflicting": lambda cells: _by_samples(cells, cells.known & ~cells.aligned),
    "unbiased": lambda cells: _by_cells(cells, cells.known),
    "class_averaged": _by_classes,
    "biased": lambda cells: _by_cells(cells, cells.aligned),
}
"""For each accuracy, the ``(cells,)`` weights; they sum to 1, or 0 without samples."""

OF_SAMPLES: Final = ("overall", "aligned", "conflicting")  # accuracies that are a mean of samples


class Strata(NamedTuple):
    """The parts of a split whose accuracies a metric averages."""

    part: Tensor  # (n,) of each sample
    weights: Tensor  # (parts,)


def stratified(name: str, cells: Cells, place: Tensor) -> Strata:
    """A mean over samples has one part: other samples would fall into the cells otherwise.

    Args:
        name: The metric.
        cells: The cells of the split.
        place: ``(n,)`` the cell of each sample.
    """
    weights = WEIGHTS[name](cells)
    if name in OF_SAMPLES:
        counted = weights[place] > 0
        return Strata(counted.long(), torch.tensor([0.0, 1.0]))
    if name == "class_averaged":
        return Strata(cells.target[place], cells.of_classes(weights))
    return Strata(place, weights)
