"""ReBias: a network made independent of one that is biased by design."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F

from crossbias.functional import hsic
from crossbias.methods.base import Method, Supervision
from crossbias.networks.recipe import Recipe
from crossbias.parameters import NonNegative, Positive
from crossbias.types import Batch, Losses, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run


class ReBias(Method):
    """ReBias (Bahng et al., ICML 2020), eq. 3 and Algorithm 1.

    The network f is trained to be right and, in the sense of HSIC, independent of a network g
    that can see only the bias; g is trained to be right and dependent on f::

        f: min CE(f) + lambda_f HSIC_1(f, g)
        g: min CE(g) - lambda_g HSIC_1(f, g)

    No bias labels are used, but g must be chosen for the kind of bias: a 1 x 1 ConvNet sees
    color and no shape.

    Args:
        biased: Name of g among the networks, built for the data at hand.
        lambda_f: Weight of independence in f's objective (the paper's lambda).
        lambda_g: Weight of dependence in g's objective.
        sigma: Width of both RBF kernels; 1 as on Biased MNIST.
        order: Which network moves first in a step: ``g-then-f`` as released, ``f-then-g`` as
            Algorithm 1 prints it. The second one sees the first one's new features.
    """

    paper: ClassVar[str] = "ReBias (ICML 2020)"
    supervision: ClassVar[Supervision] = "kind of bias"
    minimum_batch: ClassVar[int] = 4  # HSIC_1 divides by m - 3
    capturable: ClassVar[bool] = True

    def __init__(
        self,
        *,
        biased: str = "convnet-1x1",
        lambda_f: NonNegative = 1.0,
        lambda_g: NonNegative = 1.0,
        sigma: Positive = 1.0,
        order: Literal["g-then-f", "f-then-g"] = "g-then-f",
    ) -> None:
        self.biased = biased
        self.lambda_f = lambda_f
        self.lambda_g = lambda_g
        self.sigma = sigma
        self.order = order

    def setup(self, run: "Run") -> None:
        """Build f, and g for the same data."""
        super().setup(run)
        self.biased_network, self.biased_optimizer = run.build(Recipe(self.biased))

    def step(self, batch: Batch) -> Losses:
        """One update of each network."""
        output, biased = self.network(batch.inputs), self.biased_network(batch.inputs)
        if self.order == "g-then-f":
            biased_losses = self._step_biased(batch, output, biased)
            biased = self._refreshed(self.biased_network, batch)
            return self._step_task(batch, output, biased) | biased_losses
        losses = self._step_task(batch, output, biased)
        output = self._refreshed(self.network, batch)
        return losses | self._step_biased(batch, output, biased)

    def state(self) -> dict[str, Any]:
        """Both networks and both optimizers."""
        return super().state() | {
            "biased_network": self.biased_network,
            "biased_optimizer": self.biased_optimizer,
        }

    def _step_task(self, batch: Batch, output: Output, biased: Output) -> Losses:
        task = F.cross_entropy(output.logits, batch.target)
        dependence = self._hsic(output, biased.features.detach())  # g is fixed here
        loss = task + self.lambda_f * dependence
        self.run.minimize(loss, self.optimizer)
        return {"loss": loss, "task": task, "hsic": dependence}

    def _step_biased(self, batch: Batch, output: Output, biased: Output) -> Losses:
        task = F.cross_entropy(biased.logits, batch.target)
        dependence = self._hsic(biased, output.features.detach())  # f is fixed here
        self.run.minimize(task - self.lambda_g * dependence, self.biased_optimizer)
        return {"biased": task}

    def _hsic(self, moving: Output, fixed: torch.Tensor) -> torch.Tensor:
        return hsic(moving.features, fixed, sigma_u=self.sigma, sigma_v=self.sigma)

    @staticmethod
    @torch.no_grad()
    def _refreshed(network: torch.nn.Module, batch: Batch) -> Output:
        """Features after the update, in training mode as in the authors' code."""
        output = network(batch.inputs)
        assert isinstance(output, Output)
        return output
