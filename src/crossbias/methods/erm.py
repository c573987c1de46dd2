"""Plain training, and two variants that other methods build on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import generalized_cross_entropy
from crossbias.parameters import PositiveFraction
from crossbias.train.method import Method
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


@dataclass(kw_only=True)
class ERM(Method):
    """Empirical risk minimization: mean cross-entropy, the baseline of every comparison."""

    name: ClassVar[str] = "erm"
    paper: ClassVar[str] = "plain training"
    capturable: ClassVar[bool] = True
    mean_loss: ClassVar[bool] = True

    def loss(self, batch: Batch) -> Losses:
        """Mean cross-entropy."""
        output = self.network(batch.inputs)
        return {"loss": F.cross_entropy(output.logits, batch.target)}


@dataclass(kw_only=True)
class BiasedERM(Method):
    """Training that amplifies a shortcut: generalized cross-entropy (Zhang & Sabuncu, 2018).

    Args:
        q: 0 approaches cross-entropy; 1 gives the probability of error.
    """

    paper: ClassVar[str] = "generalized cross-entropy (NeurIPS 2018)"
    capturable: ClassVar[bool] = True
    mean_loss: ClassVar[bool] = True

    q: PositiveFraction = 0.7

    def loss(self, batch: Batch) -> Losses:
        """Mean generalized cross-entropy."""
        output = self.network(batch.inputs)
        return {"loss": generalized_cross_entropy(output.logits, batch.target, q=self.q).mean()}


@dataclass(kw_only=True, eq=False, repr=False)
class WeightedERM(Method):
    """Cross-entropy with a weight for each training sample.

    Args:
        weights: ``(full_size,)`` one for each row of the full training set.
    """

    paper: ClassVar[str] = "plain training with sample weights"
    capturable: ClassVar[bool] = True
    mean_loss: ClassVar[bool] = True

    weights: Tensor

    def setup(self, run: "Run") -> None:
        """Put the weights on the device."""
        super().setup(run)
        self.table = self.weights.float().to(run.device)

    def loss(self, batch: Batch) -> Losses:
        """Weighted mean cross-entropy."""
        output = self.network(batch.inputs)
        each = F.cross_entropy(output.logits, batch.target, reduction="none")
        return {"loss": (self.table[batch.index] * each).mean()}

    def __repr__(self) -> str:
        return "WeightedERM()"
