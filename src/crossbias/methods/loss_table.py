"""The losses of every training sample, averaged over the visits."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossbias.functional.difficulty import (
    NOT_SEEN,
    class_maximum,
    divided_by_class,
    moving_average,
)

if TYPE_CHECKING:
    from crossbias.train.run import Run


class LossTable:
    """Moving averages of one network's loss on each row of the full training set.

    Args:
        run: The run whose data is seen.
        weight: Of a new loss in the average.
    """

    def __init__(self, run: "Run", *, weight: float) -> None:
        self.weight = weight
        self.values = torch.full((run.data.full_size,), NOT_SEEN, device=run.device)
        targets = run.data.targets
        self._by_class = run.data.index[targets.argsort(stable=True)].to(run.device)
        self._sizes = targets.bincount(minlength=run.data.num_classes).to(run.device)

    def update(self, index: Tensor, losses: Tensor) -> None:
        """Take in the losses of some rows; a row named twice keeps one of the two."""
        self.values[index] = moving_average(self.values[index], losses, weight=self.weight)

    def relative(self, index: Tensor, target: Tensor) -> Tensor:
        """Averages of some rows over the largest of any sample of their class."""
        largest = class_maximum(self.values[self._by_class], self._sizes)
        return divided_by_class(self.values[index], largest[target])
