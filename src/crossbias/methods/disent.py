"""DisEnt: features of the class and of the bias, kept apart and swapped between samples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.methods.bias_ensemble import Division, in_steps
from crossbias.methods.lff import FailureTraining, LfF
from crossbias.networks.network import Network
from crossbias.networks.two_encoders import TwoEncoders, two_encoders
from crossbias.parameters import NonNegative
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


@dataclass(kw_only=True)
class DisEnt(LfF):
    """Disentangled feature augmentation (Lee et al., NeurIPS 2021), and with BiasEnsemble.

    Two encoders give features z_i of the class itself and z_b of the bias. Two linear heads see
    both, but each trains one encoder only: C_i trains that of z_i with the weighted cross-entropy
    of LfF, and C_b that of z_b with generalized cross-entropy::

        L_dis  = w CE(C_i(z_i, z_b), y) + lambda_dis GCE(C_b(z_i, z_b), y)

    Later each sample also gets the z_b of another sample of the batch, whose class is y'::

        L_swap = w CE(C_i(z_i, z_b'), y) + lambda_swap_b GCE(C_b(z_i, z_b'), y')
        L      = L_dis + lambda_swap L_swap

    With ``ensemble`` (Lee et al., AAAI 2023) briefly trained biased networks say which samples
    match the bias. C_b is then trained on these alone, with plain cross-entropy. C_i predicts.

    Args:
        q: Exponent of generalized cross-entropy, of C_b or of the ensemble; .7 in both papers.
        released_gce: Give C_b q times the gradient of generalized cross-entropy, as in the code.
            With SGD it is another rate, with Adam hardly anything. An ensemble is trained without
            it.
        alpha_loss: Weight of a new loss in the averages behind w; .3 in the code of both.
        ensemble: Train C_b on the samples of which an ensemble is certain (BiasEnsemble).
        members: Networks in the ensemble; 5 in BiasEnsemble.
        ensemble_length: Length of each member's training; 1000 of 50000 steps in BiasEnsemble. A
            fraction means at least 50 steps, but not more than the training has.
        confidence: Probability above which a member is certain; .99 in BiasEnsemble.
        uniform: Part of the weights w that all samples of a batch share evenly, as in LfF here: .8
            with two classes and 0 with more, if it is not given.
        lambda_swap: Weight of the swapped terms; 1 on colored MNIST, .1 on BFFHQ.
        lambda_dis: Weight of C_b's loss; 10 on colored MNIST, 2 on BFFHQ.
        lambda_swap_b: Weight of C_b's loss among the swapped terms; 10 and 2 as well.
        swap_start: When features begin to be swapped: a fraction of the training if below 1, else
            a number of steps; 10000 of 50000 steps in the paper.
    """

    name: ClassVar[str] = "disent"
    paper: ClassVar[str] = "DisEnt (NeurIPS 2021)"

    lambda_swap: NonNegative = 1.0
    lambda_dis: NonNegative = 10.0
    lambda_swap_b: NonNegative = 10.0
    swap_start: NonNegative = 0.2

    def network_for(self, make: Callable[[], Network]) -> Network:
        """Two encoders and C_i; C_b is inside the body, unused after training."""
        return two_encoders(make)

    def _training(self, division: Division | None) -> "SwapTraining":
        return SwapTraining(options=self, division=division)


@dataclass(kw_only=True, eq=False, repr=False)
class SwapTraining(FailureTraining):
    """Trains both encoders and both heads in one update.

    Args:
        options: The method, whose hyper-parameters hold.
        division: Which samples are aligned; all of them, with another loss, if not given.
    """

    paper: ClassVar[str] = "DisEnt (NeurIPS 2021)"
    capturable: ClassVar[bool] = False  # a step draws partners, and swaps from a number on

    options: DisEnt

    def setup(self, run: "Run") -> None:
        """Build the network with two encoders, and the tables of the heads' losses."""
        self.run = run
        self.network, self.optimizer = run.build(lambda: self.options.network_for(run.make_network))
        self._make_tables(run)
        body = self.network.body
        assert isinstance(body, TwoEncoders)
        self.biased_head = body.biased_head
        self.biased_network = Network(body, body.biased_head)  # to look at, after the training
        self.taken = torch.zeros((), dtype=torch.int64)  # on the CPU, where a step branches on it
        self.swap_step = in_steps(self.options.swap_start, run.steps)

    def step(self, batch: Batch) -> Losses:
        """One update; the weights know the losses of this batch."""
        number = int(self.taken)
        self.taken += 1
        own, other = self.network(batch.inputs).features.chunk(2, 1)  # z_i, z_b
        logits, biased_logits = self._logits(own, other)
        each, biased_each = _cross_entropy(logits, batch), _cross_entropy(biased_logits, batch)
        weight = self._difficulty(batch, each, biased_each)
        main = (weight * each).mean()
        whole, gather = self._whole(batch), self.run.gather
        biased = self._biased_loss(whole, gather(biased_logits), gather(biased_each))
        loss = main + self.options.lambda_dis * biased
        swap = swap_biased = torch.zeros_like(loss)
        if number >= self.swap_step:
            # Partners come from the whole batch, whatever the number of processes.
            order = self._order(len(whole.index), number)
            swap, swap_biased = self._swapped(
                whole, gather(own), gather(other), gather(weight), order
            )
            both = swap + self.options.lambda_swap_b * swap_biased
            loss = loss + self.options.lambda_swap * both
        self.run.minimize(loss, self.optimizer)
        terms = {"main": main, "biased": biased, "swap": swap, "swap_biased": swap_biased}
        return {"loss": loss, "weight": weight.mean()} | terms

    def state(self) -> dict[str, Any]:
        """The network and its optimizer, the tables, and the number of steps taken."""
        return {
            "network": self.network,
            "optimizer": self.optimizer,
            "biased_losses": self.biased_losses.values,
            "losses": self.losses.values,
            "taken": self.taken,
        }

    def _logits(self, own: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """C_i and C_b, each without gradient to the encoder of the other."""
        pairs = torch.cat([own, other.detach()], 1), torch.cat([own.detach(), other], 1)
        heads = self.network.head, self.biased_head
        logits, biased_logits = (
            F.linear(pair, head.weight, head.bias) for pair, head in zip(pairs, heads, strict=True)
        )
        return logits, biased_logits

    def _swapped(
        self, batch: Batch, own: Tensor, other: Tensor, weight: Tensor, order: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The two terms of L_swap; the class and the alignment of z_b go with it."""
        logits, biased_logits = self._logits(own, other[order])
        partner = batch._replace(target=batch.target[order], index=batch.index[order])
        biased_each = _cross_entropy(biased_logits, partner)
        swap = (weight * _cross_entropy(logits, batch)).mean()
        return swap, self._biased_loss(partner, biased_logits, biased_each)

    def _order(self, size: int, number: int) -> Tensor:
        """A random order of the batch, the same for a step whenever it is taken."""
        seed = self.run.seed("swap", number, 0)
        order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
        return order.to(self.run.device, non_blocking=True)


def _cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    return F.cross_entropy(logits, batch.target, reduction="none")
