"""Write a de-biasing method of your own, check it against the contract, and train it.

Run it with: python examples/own_method.py [STEPS]
"""

import sys
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

import crossbias
from crossbias.parameters import Fraction
from crossbias.testing import check_method


@dataclass(kw_only=True)
class GroupWeighted(crossbias.Method):
    """Cross-entropy in which small (target, bias) groups count more.

    Args:
        power: 0 is plain training; with 1 every group has the same weight in total.
    """

    paper: ClassVar[str] = "an example"
    supervision: ClassVar[str] = "bias labels"

    power: Fraction = 1.0

    def setup(self, run: crossbias.Run) -> None:
        """Make one weight for each group."""
        super().setup(run)
        counts = run.data.counts().flatten().clamp(min=1)  # (groups,)
        self.weights = (counts.sum() / counts).pow(self.power).to(run.device)

    def loss(self, batch: crossbias.Batch) -> dict[str, torch.Tensor]:
        """Weighted mean of the cross-entropy; samples of unknown bias count once."""
        logits = self.network(batch.inputs).logits
        each = F.cross_entropy(logits, batch.target, reduction="none")
        weights = torch.where(batch.group >= 0, self.weights[batch.group], 1.0)
        return {"loss": (weights * each).sum() / weights.sum()}


check_method(GroupWeighted, other_values={"power": 0.5})  # raises AssertionError if it fails
print("GroupWeighted keeps the contract")

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
train, test = (crossbias.load("glyphs", split, size=2000, rho=0.95) for split in ("train", "test"))
for method in (crossbias.create("erm"), GroupWeighted()):
    config = crossbias.TrainConfig(steps=steps, batch_size=64)
    result = crossbias.fit(method, train, network="small-convnet", config=config)
    conflicting = result.evaluate(test)["test"].conflicting.value
    print(f"{method!r}: {conflicting:.3f} of the conflicting test images are right")
