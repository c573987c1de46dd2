"""The losses of every training sample, averaged over the epochs."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossbias.functional import NOT_SEEN, class_maximum, divided_by_class, moving_average

if TYPE_CHECKING:
    from crossbias.train.run import Run


class LossTable:
    """Moving averages of one network's loss on each row of the full training set.

    Every process keeps the same table: ``update`` takes in the rows of all of them.

    Args:
        run: The run whose data is seen.
        weight: Weight of a new loss in the average.
    """

    def __init__(self, run: "Run", *, weight: float) -> None:
        self.run, self.weight = run, weight
        self.values = torch.full((run.data.full_size,), NOT_SEEN, device=run.device)
        targets = run.data.targets
        self._by_class = run.data.index[targets.argsort(stable=True)].to(run.device)
        self._sizes = targets.bincount(minlength=run.data.num_classes).to(run.device)

    def update(self, index: Tensor, losses: Tensor) -> Tensor:
        """Take in the losses of a batch; a row that occurs twice keeps one of the two.

        Args:
            index: ``(b,)`` rows of this process's share of the batch.
            losses: ``(b,)`` their losses.

        Returns:
            ``(B,)`` the rows of the whole batch.
        """
        index, losses = self.run.gather(index), self.run.gather(losses.detach())
        self.values[index] = moving_average(self.values[index], losses, weight=self.weight)
        return index

    def relative(self, index: Tensor, target: Tensor) -> Tensor:
        """Averages of some rows, each divided by the largest of any sample of its class."""
        largest = class_maximum(self.values[self._by_class], self._sizes)
        return divided_by_class(self.values[index], largest[target])
