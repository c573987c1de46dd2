"""EnD: entangling and disentangling deep representations."""

from typing import TYPE_CHECKING, ClassVar, Literal

import torch.nn.functional as F

from crossbias.data.balance import balanced_weights
from crossbias.functional import end_terms
from crossbias.networks.network import Network
from crossbias.parameters import NonNegative
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


class EnD(Method):
    """EnD (Tartaglione et al., CVPR 2021): J = CE + alpha R_perp + beta R_par (eqs. 1 and 5).

    R_perp pushes apart the features of samples that share a bias, R_par pulls together those of
    one class with different biases.

    Args:
        alpha: Weight of the disentangling term. The authors' default is .1; their table comes
            from a search in [0, 1] (rho up to .997) or [0, 50] (rho .999).
        beta: Weight of the entangling term, likewise.
        variant: ``released`` computes the terms as the authors' code does, which gave the
            published numbers; ``paper`` as eqs. 7 and 10. Their scales differ: alpha and beta
            of one are not those of the other.
        layer: Name of the regularized layer, the paper's Gamma, such as ``body.5``; its output
            is flattened. If empty the features before the head, as in all of the paper's
            experiments.
        balanced: Draw every (target, bias) group equally often, the weighted sampler the paper
            suggests so that more batches have entangling pairs (eq. 12).
    """

    paper: ClassVar[str] = "EnD (CVPR 2021)"
    supervision: ClassVar[Supervision] = "bias labels"
    capturable: ClassVar[bool] = True

    def __init__(
        self,
        *,
        alpha: NonNegative = 0.1,
        beta: NonNegative = 0.1,
        variant: Literal["released", "paper"] = "released",
        layer: str = "",
        balanced: bool = False,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.variant = variant
        self.layer = layer
        self.balanced = balanced

    def setup(self, run: "Run") -> None:
        """Tap the regularized layer."""
        super().setup(run)
        self.network.tap(self.layer)

    def fit(self, run: "Run") -> Network:
        """One training."""
        network = run.train(self, weights=balanced_weights(run.data) if self.balanced else None)
        network.tap("")
        return network

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy and the two terms on the regularized layer's output."""
        output = self.network(batch.inputs)
        task = F.cross_entropy(output.logits, batch.target)
        regularized = output.features if output.tapped is None else output.tapped.flatten(1)
        disentangling, entangling = end_terms(
            regularized, batch.target, batch.bias, variant=self.variant
        )
        return {
            "loss": task + self.alpha * disentangling + self.beta * entangling,  # eqs. 1, 5
            "task": task,
            "disentangling": disentangling,
            "entangling": entangling,
        }
