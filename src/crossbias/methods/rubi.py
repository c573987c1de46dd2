"""RUBi: a mask made from a biased network leaves little to learn where the bias is enough."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.functional import at_least_float32, masked_cross_entropy
from crossbias.methods.kinds_of_bias import check_biased_network, kind_symptoms, named_or_chosen
from crossbias.methods.symptoms import training_accuracy
from crossbias.networks.network import Network
from crossbias.networks.recipe import Recipe
from crossbias.parameters import NonNegative
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


@dataclass(kw_only=True)
class RUBi(Method):
    """RUBi (Cadene et al., NeurIPS 2019), in the form in which ReBias (ICML 2020) compares with it.

    A biased network g, which can see only the bias, is trained beside the network f. A linear
    layer c on g's features makes a mask for f's logits::

        f, c: min CE(f(x) * sigmoid(c(h_g)), y) + bias_weight CE(c(h_g), y)
        g:    min CE(g(x), y)

    No gradient of the first line reaches g. The trained network answers without the mask.

    Args:
        biased: Name of the network g, built for the data at hand. If not given, it is chosen as
            by ``rebias``: ``convnet-1x1``, which sees color, for color images whose color tells
            the class, and ``resnet18-2d`` for clips. Otherwise training is refused.
        bias_weight: Weight of the mask's own cross-entropy; 1 in the paper.
        train_head: Whether c is trained. In the code behind ReBias's tables it is in no
            optimizer, so f is trained under a fixed random mask: false is what made its table.
    """

    name: ClassVar[str] = "rubi"
    paper: ClassVar[str] = "RUBi (NeurIPS 2019)"
    supervision: ClassVar[Supervision] = "kind of bias"
    capturable: ClassVar[bool] = True

    biased: str | None = None
    bias_weight: NonNegative = 1.0
    train_head: bool = True

    def fit(self, run: "Run") -> Network:
        """One training, and a look at what g has learned."""
        network = run.train(self)
        accuracy = training_accuracy(run, self.biased_network)
        for symptom in kind_symptoms(self.chosen, accuracy, run.data, use="masking by it"):
            run.warn(*symptom)
        return network

    def setup(self, run: "Run") -> None:
        """Build f, g for the same data, and c."""
        self.chosen = named_or_chosen(self.biased, run.data)
        super().setup(run)
        self.biased_network, self.biased_optimizer = run.build(Recipe(self.chosen))
        check_biased_network(self.chosen, self.biased_network, run.data)
        features, classes = self.biased_network.num_features, run.data.num_classes
        self.head, self.head_optimizer = run.build(lambda: nn.Linear(features, classes))

    def step(self, batch: Batch) -> Losses:
        """One update of each part."""
        output, biased = self.network(batch.inputs), self.biased_network(batch.inputs)
        mask = self._mask(biased.features.detach())
        task = masked_cross_entropy(output.logits, mask, batch.target)
        bias_task = F.cross_entropy(mask, batch.target)
        biased_task = F.cross_entropy(biased.logits, batch.target)
        loss = task + self.bias_weight * bias_task
        moving = [self.optimizer, self.biased_optimizer]
        moving += [self.head_optimizer] if self.train_head else []
        self.run.minimize(loss + biased_task, *moving)  # g and the others share no parameter
        return {"loss": loss, "task": task, "mask": bias_task, "biased": biased_task}

    def state(self) -> dict[str, Any]:
        """All networks and optimizers."""
        return super().state() | {
            "biased_network": self.biased_network,
            "biased_optimizer": self.biased_optimizer,
            "head": self.head,
            "head_optimizer": self.head_optimizer,
        }

    def _mask(self, features: Tensor) -> Tensor:
        """The scores of c, (B, K), before the sigmoid."""
        mask = self.head(features) if self.train_head else self.run.fixed(self.head, features)
        assert isinstance(mask, Tensor)
        return at_least_float32(mask)
