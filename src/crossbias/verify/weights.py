"""The weight of each cell in an accuracy that is a weighted mean of the cells."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from crossbias.verify.cells import Cells


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
