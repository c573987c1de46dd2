"""Plain training."""

from typing import ClassVar

import torch.nn.functional as F

from crossbias.methods.base import Method
from crossbias.types import Batch, Losses


class ERM(Method):
    """Empirical risk minimization: mean cross-entropy, the baseline of every comparison."""

    paper: ClassVar[str] = "plain training"
    capturable: ClassVar[bool] = True

    def loss(self, batch: Batch) -> Losses:
        """Mean cross-entropy."""
        output = self.network(batch.inputs)
        return {"loss": F.cross_entropy(output.logits, batch.target)}
