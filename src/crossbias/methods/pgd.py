"""PGD: resample the training set by the size of per-sample gradients."""

from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from crossbias.functional import generalized_cross_entropy, head_gradient_norm
from crossbias.methods.base import Method
from crossbias.methods.erm import ERM
from crossbias.networks.network import Network
from crossbias.parameters import Count, PositiveFraction
from crossbias.types import Batch, Losses, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run


class PGD(Method):
    """Per-sample gradient-based de-biasing (Ahn et al., ICLR 2023), in three steps.

    A biased network is trained with generalized cross-entropy, which lets it ignore what is
    hard. Samples that conflict with its shortcut keep large gradients. The final network is
    trained on samples drawn in proportion to the norm of the last layer's gradient.

    Args:
        q: Of generalized cross-entropy; .7 in paper and release.
        biased_epochs: Length of the biased training; the configured number of epochs if not
            given, as in the paper.
        from_biased: Start the final network from the biased one, as the release does, instead
            of from fresh weights.
    """

    paper: ClassVar[str] = "PGD (ICLR 2023)"

    def __init__(
        self,
        *,
        q: PositiveFraction = 0.7,
        biased_epochs: Count | None = None,
        from_biased: bool = True,
    ) -> None:
        self.q = q
        self.biased_epochs = biased_epochs
        self.from_biased = from_biased

    def fit(self, run: "Run") -> Network:
        """Biased network, gradient norms, resampled final network."""
        biased = run.train(BiasedERM(q=self.q), name="biased", epochs=self.biased_epochs)
        norms = run.stage("gradient-norms", lambda: run.score(biased, _gradient_norm))
        start = biased if self.from_biased else None
        # The release floors the norms, so that a sample fitted exactly can still be drawn.
        return run.train(ERM(), weights=norms.clamp(min=1e-8), network=start)


class BiasedERM(Method):
    """Training that amplifies a shortcut: generalized cross-entropy (Zhang & Sabuncu, 2018).

    Args:
        q: 0 approaches cross-entropy; 1 gives the probability of error.
    """

    paper: ClassVar[str] = "generalized cross-entropy (NeurIPS 2018)"
    capturable: ClassVar[bool] = True

    def __init__(self, *, q: PositiveFraction = 0.7) -> None:
        self.q = q

    def loss(self, batch: Batch) -> Losses:
        """Mean generalized cross-entropy."""
        output = self.network(batch.inputs)
        return {"loss": generalized_cross_entropy(output.logits, batch.target, q=self.q).mean()}


def _gradient_norm(batch: Batch, output: Output) -> Tensor:
    """Of plain cross-entropy with respect to the head's weight; the release leaves its bias out."""
    return head_gradient_norm(output.logits, batch.target, output.features, bias=False)
