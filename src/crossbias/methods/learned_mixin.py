"""LearnedMixin+H: trained together with a fixed biased network, used without it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.formatting import percent
from crossbias.functional import learned_mixin_terms
from crossbias.methods.erm import ERM
from crossbias.methods.kinds_of_bias import check_biased_network, kind_symptoms, named_or_chosen
from crossbias.methods.symptoms import has_learned, training_accuracy
from crossbias.networks.network import Network
from crossbias.networks.recipe import Recipe
from crossbias.parameters import Count, NonNegative
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


@dataclass(kw_only=True)
class LearnedMixin(Method):
    """LearnedMixin+H (Clark et al., EMNLP 2019), as ReBias (ICML 2020) compares with it.

    A biased network g, which can see only the bias, is trained first and stays as it is. The
    network f is trained so that both together are right::

        f: min CE(log p_f + s log p_g, y) + entropy_weight H(softmax(s log p_g))
        s = softplus(a h_f + b), from the features h_f of the sample

    What g knows already, f need not learn. The entropy term keeps s from falling to 0, where g
    has no say. The trained network answers without g.

    Args:
        biased: Name of the network g, built for the data at hand. If not given, it is chosen as
            by ``rebias``: ``convnet-1x1``, which sees color, for color images whose color tells
            the class, and ``resnet18-2d`` for clips. Otherwise training is refused.
        entropy_weight: Weight of the entropy, the paper's w; .36 in ReBias's code.
        biased_epochs: Length of g's training; ReBias has 5 on Biased MNIST and 30 elsewhere.
        train_head: Whether a and b are trained. In the code behind ReBias's tables they are in no
            optimizer and stay as they were drawn: false is what made its table.
        own_weight: Weight of CE(log p_f, y), without g, in the loss of f; 0 in the paper and in
            ReBias's code. With 1, f keeps the aligned samples, as in the tables of PGD (ICLR 2022
            submission), whose text can be read so.
    """

    name: ClassVar[str] = "learned-mixin"
    paper: ClassVar[str] = "LearnedMixin+H (EMNLP 2019)"
    supervision: ClassVar[Supervision] = "kind of bias"
    capturable: ClassVar[bool] = True

    biased: str | None = None
    entropy_weight: NonNegative = 0.36
    biased_epochs: Count = 5
    train_head: bool = True
    own_weight: NonNegative = 0.0

    def fit(self, run: "Run") -> Network:
        """Biased network, then the network beside it, and a look at both."""
        name = named_or_chosen(self.biased, run.data)
        training = BiasedKind(recipe=name)
        self.biased_network = run.train(training, name="biased", epochs=self.biased_epochs)
        accuracy = training_accuracy(run, self.biased_network)
        for symptom in kind_symptoms(name, accuracy, run.data, use="learning beside it"):
            run.warn(*symptom)
        network = run.train(self)
        self._examine(run, network)
        return network

    def setup(self, run: "Run") -> None:
        """Build f and the layer that gives s; g is fixed."""
        super().setup(run)
        features = self.network.num_features
        self.head, self.head_optimizer = run.build(lambda: nn.Linear(features, 1))
        self.fixed_network = run.frozen(self.biased_network)

    def step(self, batch: Batch) -> Losses:
        """One update of f, and of the layer that gives s."""
        output = self.network(batch.inputs)
        with torch.no_grad(), self.run.devices.autocast():
            biased = self.fixed_network(batch.inputs).logits
        scale = F.softplus(self._score(output.features)).squeeze(1)
        task, entropy = learned_mixin_terms(output.logits, biased, scale, batch.target)
        own = F.cross_entropy(output.logits, batch.target)
        loss = task + self.entropy_weight * entropy + self.own_weight * own
        self.run.minimize(loss, self.optimizer, *[self.head_optimizer] * self.train_head)
        terms = {"task": task, "entropy": entropy, "own": own}
        return {"loss": loss, "scale": scale.mean()} | terms

    def state(self) -> dict[str, Any]:
        """Network, layer and optimizers; g has been kept by its own stage."""
        return super().state() | {"head": self.head, "head_optimizer": self.head_optimizer}

    def _score(self, features: Tensor) -> Tensor:
        """The score a h_f + b, (B, 1); gradients reach the features in any case."""
        score = self.head(features) if self.train_head else self.run.fixed(self.head, features)
        assert isinstance(score, Tensor)
        return score

    def _examine(self, run: "Run", network: Network) -> None:
        """Warn where the network cannot answer by itself."""
        alone = training_accuracy(run, network).overall
        if not has_learned(alone, run.data):
            run.warn(
                "network left everything to the biased one",
                f"Without the biased network, the trained one is right on {percent(alone)} of the "
                f"training samples, hardly better than chance: it is right only together with the "
                f"biased one.",
                "Lower entropy_weight, raise own_weight, train the biased network for a shorter "
                "time with biased_epochs, or choose one that sees less with biased.",
            )


@dataclass(kw_only=True)
class BiasedKind(ERM):
    """Plain training of a network that sees one kind of bias, instead of the run's own.

    Args:
        recipe: Name of the network.
    """

    name: ClassVar[str] = ""

    recipe: str

    def setup(self, run: "Run") -> None:
        """Build that network."""
        self.run = run
        self.network, self.optimizer = run.build(Recipe(self.recipe))
        check_biased_network(self.recipe, self.network, run.data)
