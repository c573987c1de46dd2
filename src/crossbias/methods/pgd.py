"""PGD: resample the training set by per-sample gradients of a biased network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from crossbias.methods.erm import ERM, BiasedERM, WeightedERM
from crossbias.methods.scores import SIMPLE_SCORES, gradient_acceptance
from crossbias.networks.network import Network
from crossbias.parameters import Count, NonNegative, PositiveFraction
from crossbias.train.method import Method

if TYPE_CHECKING:
    from crossbias.train.run import Run


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
        biased_epochs: Length of the biased training; the configured number of epochs if not
            given, as in both papers.
        from_biased: Start the final network from the biased one, as the 2023 release does,
            instead of from fresh weights.
        balance: The 2022 paper's lambda, weight of the direction in ``vmf``; it reports no
            difference for 0, 1, 10 and 100.
        dimensions: The 2022 paper's K, the number of gradient coordinates that make up a
            direction; all of them where there are fewer. 100 on MNIST, 500 with ResNet-18.
        floor: Smallest density of a direction relative to its class's largest. The paper has
            none; without one a few outliers would take all draws.
        reweight: Weight the loss by the score instead of drawing by it (the dagger row).
    """

    name: ClassVar[str] = "pgd"
    paper: ClassVar[str] = "PGD (ICLR 2023)"
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {"sampling": ("scores",)}

    score: Literal["norm", "vmf", "magnitude", "direction", "softmax", "logit", "loss"] = "norm"
    q: PositiveFraction = 0.7
    biased_epochs: Count | None = None
    from_biased: bool = True
    balance: NonNegative = 1.0
    dimensions: Count = 100
    floor: PositiveFraction = 0.01
    reweight: bool = False

    def fit(self, run: "Run") -> Network:
        """Biased network, scores, final network."""
        biased = run.train(BiasedERM(q=self.q), name="biased", epochs=self.biased_epochs)
        scores = run.stage("scores", lambda: self._scores(run, biased))
        # The release floors the scores, so that a sample fitted exactly can still be drawn.
        scores = torch.where(scores > 0, scores.clamp(min=1e-8), 1e-8)
        start = biased if self.from_biased else None
        if self.reweight:
            mean = scores[run.data.index].mean()
            return run.train(WeightedERM(weights=scores / mean), network=start)
        return run.train(ERM(), weights=scores, network=start)

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
