"""ReBias: a network made independent of others that are biased by design."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.data.order import batches, epoch_order
from crossbias.errors import CrossbiasError
from crossbias.functional import hsic, median_bandwidth
from crossbias.methods.followed_bias import followed_bias_symptoms
from crossbias.methods.kinds_of_bias import (
    biased_network_for,
    check_biased_network,
    kind_symptoms,
)
from crossbias.methods.symptoms import training_accuracy
from crossbias.networks.network import Network, buffers_kept
from crossbias.networks.recipe import Recipe
from crossbias.parameters import NonNegative, Positive
from crossbias.seeds import global_randomness_kept, seed_global
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

_FRACTION = 0.25  # of the training batches measure kernel widths, as in the released code


@dataclass(kw_only=True)
class ReBias(Method):
    """ReBias (Bahng et al., ICML 2020), eq. 3 and Algorithm 1.

    The network f is trained to be right and, in the sense of HSIC, independent of networks g
    that can see only the bias; each g is trained to be right and dependent on f::

        f: min CE(f) + lambda_f sum_g HSIC_1(f, g)
        g: min CE(g) - lambda_g HSIC_1(f, g)

    No bias labels are used, but g must be chosen for the kind of bias: a 1 x 1 ConvNet sees
    color and no shape. HSIC sees the whole batch, whatever the number of processes.

    Args:
        biased: Names of one or several networks g, built for the data at hand. The paper has
            one. Where its eq. 2 takes the maximum over g, the released code takes the sum. If
            not given: ``convnet-1x1``, which sees color, for color images whose color tells the
            class, and ``resnet18-2d``, which sees single frames, for clips. Otherwise training is
            refused, because the kind of bias is not known.
        lambda_f: Weight of independence in f's objective (the paper's lambda).
        lambda_g: Weight of dependence in g's objective.
        sigma: Width of the RBF kernels: one number for all (1 on Biased MNIST), a number for f
            and one for each g, or ``median``. The latter is the median distance between two
            samples of a batch, measured for each network before each epoch, as on ImageNet.
        position: What is compared: the pooled ``features``, or the ``logits``, which the paper
            finds more stable for action recognition.
        unbiased: HSIC_1 (eq. A3) if true, else the biased HSIC_0 of section 3.2.
        order: Which network moves first in a step: ``g-then-f`` as released, ``f-then-g`` as
            Algorithm 1 prints it. The second one sees the first one's new features.
    """

    name: ClassVar[str] = "rebias"
    paper: ClassVar[str] = "ReBias (ICML 2020)"
    supervision: ClassVar[Supervision] = "kind of bias"
    minimum_batch: ClassVar[int] = 4  # HSIC_1 divides by m - 3
    capturable: ClassVar[bool] = True
    curves: ClassVar[Mapping[str, tuple[str, str]]] = {"hsic": ("HSIC", "hsic")}

    biased: tuple[str, ...] | str | None = None
    lambda_f: NonNegative = 1.0
    lambda_g: NonNegative = 1.0
    sigma: Positive | Literal["median"] | tuple[Positive, ...] = 1.0
    position: Literal["features", "logits"] = "features"
    unbiased: bool = True
    order: Literal["g-then-f", "f-then-g"] = "g-then-f"

    def __post_init__(self) -> None:
        if self.biased is not None:
            self.biased = (self.biased,) if isinstance(self.biased, str) else tuple(self.biased)

    def fit(self, run: "Run") -> Network:
        """One training, and a look at what each g has learned."""
        network = run.train(self)
        for name, biased in zip(self.names, self.biased_networks, strict=True):
            accuracy = training_accuracy(run, biased)
            for symptom in kind_symptoms(name, accuracy, run.data, use="being independent of it"):
                run.warn(*symptom)
        return network

    def examine(self, epochs: Sequence[Mapping[str, float]]) -> None:
        """Warn where the network follows the bias after all."""
        remedy = (
            "Raise lambda_f and lambda_g (30 and 10 in the demo), or name another biased network "
            "that sees this kind of bias and little else with biased."
        )
        for symptom in followed_bias_symptoms(self.run, self.network, remedy):
            self.run.warn(*symptom)

    def setup(self, run: "Run") -> None:
        """Build f, and each g for the same data."""
        self.names = (biased_network_for(run.data),) if self.biased is None else self.biased
        networks = 1 + len(self.names)
        if networks == 1:
            raise CrossbiasError("biased of ReBias names no network; name one, as 'convnet-1x1'")
        if isinstance(self.sigma, tuple) and len(self.sigma) != networks:
            raise CrossbiasError(
                f"sigma of ReBias has {len(self.sigma)} numbers for {networks} networks; "
                f"give one for f and one for each of: {', '.join(self.names)}"
            )
        super().setup(run)
        built = [run.build(Recipe(name)) for name in self.names]
        self.biased_networks = [network for network, _ in built]
        for name, network in zip(self.names, self.biased_networks, strict=True):
            check_biased_network(name, network, run.data)
        self.biased_optimizers = [optimizer for _, optimizer in built]
        start = 1.0 if isinstance(self.sigma, str) else self.sigma
        widths = start if isinstance(start, tuple) else (start,) * networks
        self.widths = torch.tensor(widths, device=run.device)  # of f and each g; begin_epoch's

    def begin_epoch(self) -> None:
        """Measure the widths, if they are medians."""
        if self.sigma == "median":
            networks = [self.network, *self.biased_networks]
            minimum = self.minimum_batch
            self.widths.copy_(median_widths(self.run, networks, self._chosen, minimum=minimum))

    def end_epoch(self) -> dict[str, float]:
        """The widths that were used, if they are medians."""
        if self.sigma != "median":
            return {}
        names = ["sigma_f", *(f"sigma_g{number}" for number in range(1, len(self.names) + 1))]
        return dict(zip(names, self.widths.tolist(), strict=True))

    def step(self, batch: Batch) -> Losses:
        """One update of each network."""
        output = self.network(batch.inputs)
        biased = [network(batch.inputs) for network in self.biased_networks]
        if self.order == "g-then-f":
            biased_losses = self._step_biased(batch, output, biased)
            biased = [_refreshed(network, batch) for network in self.biased_networks]
            return self._step_task(batch, output, biased) | biased_losses
        losses = self._step_task(batch, output, biased)
        return losses | self._step_biased(batch, _refreshed(self.network, batch), biased)

    def state(self) -> dict[str, Any]:
        """All networks and optimizers, and the widths."""
        state = super().state() | {"widths": self.widths}
        for number, network in enumerate(self.biased_networks):
            state[f"biased_network_{number}"] = network
            state[f"biased_optimizer_{number}"] = self.biased_optimizers[number]
        return state

    def _step_task(self, batch: Batch, output: Output, biased: Sequence[Output]) -> Losses:
        task = F.cross_entropy(output.logits, batch.target)
        each = [self._hsic(output, 0, g, number) for number, g in enumerate(biased, 1)]
        dependence = torch.stack(each).sum()
        loss = task + self.lambda_f * dependence
        self.run.minimize(loss, self.optimizer)
        return {"loss": loss, "task": task, "hsic": dependence}

    def _step_biased(self, batch: Batch, output: Output, biased: Sequence[Output]) -> Losses:
        task = torch.stack([F.cross_entropy(g.logits, batch.target) for g in biased])
        each = [self._hsic(g, number, output, 0) for number, g in enumerate(biased, 1)]
        loss = (task - self.lambda_g * torch.stack(each)).sum()  # no g sees another's part
        self.run.minimize(loss, *self.biased_optimizers)
        return {"biased": task.mean()}

    def _hsic(self, moving: Output, moving_number: int, fixed: Output, fixed_number: int) -> Tensor:
        """HSIC of two networks, f being number 0; the fixed one gets no gradient."""
        return hsic(
            self.run.gather(self._chosen(moving)),
            self.run.gather(self._chosen(fixed).detach()),
            sigma_u=self.widths[moving_number],
            sigma_v=self.widths[fixed_number],
            unbiased=self.unbiased,
        )

    def _chosen(self, output: Output) -> Tensor:
        return output.logits if self.position == "logits" else output.features


@torch.no_grad()
def _refreshed(network: nn.Module, batch: Batch) -> Output:
    """A network's output after its update, in training mode as in the authors' code."""
    output = network(batch.inputs)
    assert isinstance(output, Output)
    return output


def median_widths(
    run: "Run", networks: Sequence[nn.Module], chosen: Callable[[Output], Tensor], *, minimum: int
) -> Tensor:
    """The median distance between two samples of a batch, for each network.

    The networks see a quarter of the training batches in the mode they are in, without
    augmentation, always the same ones. Nothing of them changes: running statistics and random
    generators are put back.

    Args:
        run: The run whose data is looked at.
        networks: As ``Run.build`` made them.
        chosen: The representation ``(B, D)`` in a network's output.
        minimum: Samples a batch must have for one process.

    Returns:
        ``(networks,)`` positive numbers, the mean over the processes.
    """
    seed = run.seed("widths")
    order = epoch_order(len(run.data), 0, seed)
    cut = batches(order, run.config.batch_size, minimum * run.devices.world)
    cut = cut[: math.ceil(_FRACTION * len(cut))]
    with torch.no_grad(), buffers_kept(*networks), global_randomness_kept(run.device):
        seed_global(seed, run.device)  # of dropout
        seen = [
            [chosen(network(batch.inputs)) for network in networks]
            for batch in run.loader(run.data).batches(cut)
        ]
        widths = torch.stack([median_bandwidth(*of_one) for of_one in zip(*seen, strict=True)])
    return run.devices.sum(widths.float()) / run.devices.world
