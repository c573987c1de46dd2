"""PGD: resample the training set by per-sample gradients of a biased network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from crossbias.methods.erm import ERM, BiasedERM, WeightedERM
from crossbias.methods.first_training import first_length
from crossbias.methods.scores import SIMPLE_SCORES, gradient_acceptance
from crossbias.methods.symptoms import (
    biased_network_symptoms,
    class_share_symptoms,
    draw_symptoms,
    training_accuracy,
)
from crossbias.networks.network import Network
from crossbias.parameters import Count, Fraction, NonNegative, PositiveFraction
from crossbias.train.method import Method

if TYPE_CHECKING:
    from crossbias.train.run import Run

# The biased training is this part of the final one by default. Measured on planted and natural
# shortcuts in docs/studies/pgd.md: shorter finds fewer of the conflicting samples, longer costs
# time and is not better everywhere. No rule without bias labels told a better moment to stop.
_PART = 1 / 4


@dataclass(kw_only=True)
class PGD(Method):
    """Per-sample gradient-based de-biasing (Ahn et al., ICLR 2022 submission and ICLR 2023).

    A biased network is trained with generalized cross-entropy, which lets it ignore hard samples.
    Samples that conflict with its shortcut keep large and unusual gradients. The final network is
    trained on samples drawn by a score of those gradients.

    Args:
        score: ``norm`` draws in proportion to the norm of the last layer's gradient (2023);
            ``vmf`` draws by magnitude and direction of the whole network's gradient (2022), and
            ``magnitude`` and ``direction`` by one of the two; ``softmax``, ``logit`` and ``loss``
            are the comparisons of the 2022 appendix.
        q: Exponent of generalized cross-entropy; .7 in both papers.
        biased_epochs: Length of the biased training. If it is not given, a quarter of the
            configured training, but at least 200 steps or the whole of it. Both papers train it as
            long as the final network, which on small data lets it learn the hard samples by heart,
            or draws hardly anything but those.
        from_biased: Start the final network from the biased one, as the 2023 release does,
            instead of from fresh weights.
        balance: The 2022 paper's lambda, weight of the direction in ``vmf``; it reports no
            difference for 0, 1, 10 and 100.
        dimensions: The 2022 paper's K, the number of gradient coordinates that make up a
            direction; all of them where there are fewer. 100 on MNIST, 500 with ResNet-18.
        floor: Smallest density of a direction relative to its class's largest. The paper has
            none; without one a few outliers would take all draws.
        reweight: Weight the loss by the score instead of drawing by it (the dagger row).
        class_balanced: Scale the scores so that every class has the same share of the draws. The
            papers do not; a class that is hard as a whole then takes most draws.
        uniform: Share of the draws that all samples have evenly; one over the number of classes if
            not given. That is the share that aligned samples would have if the bias said nothing
            about the class. The papers have 0: with two classes, draws of conflicting samples alone
            turn the shortcut around.
    """

    name: ClassVar[str] = "pgd"
    paper: ClassVar[str] = "PGD (ICLR 2023)"
    mean_loss: ClassVar[bool] = True
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {"sampling": ("draws",)}

    score: Literal["norm", "vmf", "magnitude", "direction", "softmax", "logit", "loss"] = "norm"
    q: PositiveFraction = 0.7
    biased_epochs: Count | None = None
    from_biased: bool = True
    balance: NonNegative = 1.0
    dimensions: Count = 100
    floor: PositiveFraction = 0.01
    reweight: bool = False
    class_balanced: bool = True
    uniform: Fraction | None = None

    def fit(self, run: "Run") -> Network:
        """Biased network, scores, final network."""
        epochs, steps = self.biased_epochs, None
        if epochs is None:
            epochs, steps = first_length(run.config, run.steps, part=_PART)
        biased = run.train(BiasedERM(q=self.q), name="biased", epochs=epochs, steps=steps)
        rows = (run.data.full_size,)
        scores = run.stage("scores", lambda: self._examined_scores(run, biased), shape=rows)
        weights = run.stage("draws", lambda: self._weights(run, scores), shape=rows)
        start = biased if self.from_biased else None
        if self.reweight:
            mean = weights[run.data.index].mean()
            return run.train(WeightedERM(weights=weights / mean), network=start)
        return run.train(ERM(), weights=weights, network=start)

    def _weights(self, run: "Run", scores: Tensor) -> Tensor:
        """How often each row is drawn, in proportion, (full_size,)."""
        # The release floors the scores, so that a sample fitted exactly can still be drawn.
        weights = torch.where(scores > 0, scores.clamp(min=1e-8), 1e-8)
        share = 1 / run.data.num_classes if self.uniform is None else self.uniform
        if not self.class_balanced and not share:
            return weights
        rows, target = run.data.index.to(weights.device), run.data.targets.to(weights.device)
        own, part = weights[rows], target if self.class_balanced else torch.zeros_like(target)
        totals = own.new_zeros(run.data.num_classes).index_add_(0, part, own)
        sizes = torch.bincount(part, minlength=run.data.num_classes)
        weights[rows] = (1 - share) * own / totals[part] + share / sizes[part]
        return weights

    def _examined_scores(self, run: "Run", biased: Network) -> Tensor:
        """The scores, and warnings where they cannot lead to what the method is for."""
        scores = self._scores(run, biased)
        accuracy = training_accuracy(run, biased)
        weights = self._weights(run, scores)
        for symptom in (
            *biased_network_symptoms(accuracy, run.data),
            *draw_symptoms(weights, run.data),
            *class_share_symptoms(weights, run.data),
        ):
            run.warn(*symptom)
        return scores

    def _scores(self, run: "Run", biased: Network) -> Tensor:
        if self.score in SIMPLE_SCORES:
            return SIMPLE_SCORES[self.score](run, biased)
        balances = {"vmf": self.balance, "magnitude": 0.0, "direction": float("inf")}
        return gradient_acceptance(
            run,
            biased,
            dimensions=self.dimensions,
            balance=balances[self.score],
            floor=self.floor,
        )
