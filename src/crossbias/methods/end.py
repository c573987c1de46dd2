"""EnD: entangling and disentangling deep representations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch.nn.functional as F

from crossbias.formatting import percent
from crossbias.functional import end_terms, has_entangling_pairs
from crossbias.methods.followed_bias import followed_bias_symptoms
from crossbias.networks.network import Network
from crossbias.parameters import NonNegative
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


_LEAST_PAIRED = 0.5  # below it, the term is missing from more steps than it is in


@dataclass(kw_only=True)
class EnD(Method):
    """EnD (Tartaglione et al., CVPR 2021): J = CE + alpha R_perp + beta R_par (eqs. 1 and 5).

    R_perp pushes apart the features of samples that share a bias. R_par pulls together the
    features of samples of one class with different biases. Both see the whole batch, whatever
    the number of processes.

    The paper suggests drawing every (target, bias) group equally often, so that more batches have
    entangling pairs (eq. 12): ``TrainConfig(sampling="group-balanced")``.

    Args:
        alpha: Weight of the disentangling term. The authors' default is .1; their table comes
            from a search in [0, 1] (rho up to .997) or [0, 50] (rho .999).
        beta: Weight of the entangling term, with the same default and search.
        variant: ``released`` computes the terms as the authors' code does, which gave the
            published numbers; ``paper`` computes eqs. 7 and 10. Their scales differ: alpha and
            beta of one do not fit the other.
        layer: Name of the regularized layer, the paper's Gamma, such as ``body.5``; its output
            is flattened. If empty, the features before the head, as in all of the paper's
            experiments.
    """

    name: ClassVar[str] = "end"
    paper: ClassVar[str] = "EnD (CVPR 2021)"
    supervision: ClassVar[Supervision] = "bias labels"
    capturable: ClassVar[bool] = True
    curves: ClassVar[Mapping[str, tuple[str, str]]] = {
        "paired": ("share of batches", "with entangling pairs")
    }

    alpha: NonNegative = 0.1
    beta: NonNegative = 0.1
    variant: Literal["released", "paper"] = "released"
    layer: str = ""

    def setup(self, run: "Run") -> None:
        """Tap the regularized layer."""
        super().setup(run)
        self.network.tap(self.layer)

    def fit(self, run: "Run") -> Network:
        """One training."""
        network = run.train(self)
        network.tap("")
        return network

    def loss(self, batch: Batch) -> Losses:
        """Cross-entropy and the two terms on the regularized layer's output."""
        output = self.network(batch.inputs)
        task = F.cross_entropy(output.logits, batch.target)
        regularized = output.features if output.tapped is None else output.tapped.flatten(1)
        features, target, bias = (
            self.run.gather(part) for part in (regularized, batch.target, batch.bias)
        )
        disentangling, entangling = end_terms(features, target, bias, variant=self.variant)
        return {
            "loss": task + self.alpha * disentangling + self.beta * entangling,  # eqs. 1, 5
            "task": task,
            "disentangling": disentangling,
            "entangling": entangling,
            "paired": has_entangling_pairs(target, bias).to(task.dtype),
        }

    def examine(self, epochs: Sequence[Mapping[str, float]]) -> None:
        """Warn where most batches had no pair, or where the terms had too little effect."""
        paired = sum(epoch["paired"] for epoch in epochs) / len(epochs)
        if self.beta > 0 and paired < _LEAST_PAIRED:
            self.run.warn(
                "batches without pairs",
                f"In {percent(1 - paired)} of the batches no two samples share a class and differ "
                f"in bias: the entangling term is zero there.",
                "Draw the groups equally often with --set train.sampling=group-balanced, or take "
                "larger batches.",
            )
        remedy = (
            "Draw the groups equally often with --set train.sampling=group-balanced, search alpha "
            "and beta (the authors search up to 1, for strong biases up to 50), or train longer."
        )
        for symptom in followed_bias_symptoms(self.run, self.network, remedy):
            self.run.warn(*symptom)
