"""The training of IE: Algorithm 1 from its line 2 on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import guidance_distance, pooled_guidance, relative_difficulty
from crossbias.methods.bias_ensemble import Division, in_steps
from crossbias.methods.even_share import even_share
from crossbias.methods.ie.bias_negatives import BiasNegatives
from crossbias.methods.ie.guidance_maps import intrinsic_maps, telling_pairs
from crossbias.methods.loss_table import LossTable
from crossbias.train.method import Method
from crossbias.types import Batch, Losses, Output

if TYPE_CHECKING:
    from crossbias.methods.ie import IE
    from crossbias.train.run import Run


@dataclass(kw_only=True, eq=False, repr=False)
class GuidedTraining(Method):
    """Trains f_b on aligned samples and f_d with a bias-negative partner beside each sample.

    Args:
        options: The method, whose hyper-parameters hold.
        division: Aligned samples and candidates.
    """

    paper: ClassVar[str] = "IE (CVPR 2024), Algorithm 1"

    options: "IE"
    division: Division

    def setup(self, run: "Run") -> None:
        """Build f_d and f_b, and the tables of losses and scores."""
        super().setup(run)
        self.biased_network, self.biased_optimizer = run.build()
        self.biased_losses = LossTable(run, weight=self.options.alpha_loss)
        self.losses = LossTable(run, weight=self.options.alpha_loss)
        self.negatives = BiasNegatives(
            run,
            self.division.candidates,
            weight=self.options.alpha_score,
            partners=self.options.partners,
            refill=self.options.empty == "candidates",
        )
        self.aligned = self.division.aligned.float().to(run.device)
        self.taken = torch.zeros((), dtype=torch.int64)  # on the CPU, where a step branches on it
        self.reference_step = in_steps(self.options.reference_start, run.steps)
        self.guidance_step = in_steps(self.options.guidance_start, run.steps)
        self.guided_steps = run.steps - self.guidance_step
        self.even = even_share(self.options.uniform, run.data.num_classes)
        negative = self.options.negative_loss
        self.uses_negatives = run.data.num_classes > 2 if negative is None else negative

    def step(self, batch: Batch) -> Losses:
        """One update of each network."""
        number = int(self.taken)
        self.taken += 1
        biased = self._step_biased(batch, number)
        guided = number >= self.guidance_step
        losses = self._guided_losses(batch, number) if guided else self._main_losses(batch)
        self.run.minimize(losses["loss"], self.optimizer)
        return losses | {"biased": biased}

    def telling_pairs(self) -> Tensor:
        """Rows of pairs worth showing, one pair for each class."""
        losses, score = self.biased_losses.values, self.negatives.score
        return telling_pairs(self.run, self.division, losses, score)

    def end_epoch(self) -> dict[str, float]:
        """How the bias-negative score tells samples apart; bias labels are read for this alone."""
        return self.negatives.summary(self.run.data)

    def state(self) -> dict[str, Any]:
        """Both networks and optimizers, the tables, and the number of steps taken."""
        return super().state() | {
            "biased_network": self.biased_network,
            "biased_optimizer": self.biased_optimizer,
            "biased_losses": self.biased_losses.values,
            "losses": self.losses.values,
            "reference": self.negatives.reference,
            "score": self.negatives.score,
            "taken": self.taken,
        }

    def _step_biased(self, batch: Batch, number: int) -> Tensor:
        """Train f_b on the aligned samples, and score all of the batch by its losses."""
        each = _cross_entropy(self.biased_network(batch.inputs), batch)
        index = self.biased_losses.update(batch.index, each)
        if number >= self.reference_step:
            self.negatives.update(index, self.biased_losses.values[index])
        chosen = self.aligned[batch.index]
        loss = (chosen * each).sum() / chosen.sum().clamp(min=1)  # a batch may have none
        self.run.minimize(loss, self.biased_optimizer)
        return loss

    def _main_losses(self, batch: Batch) -> Losses:
        """Eq. 8 alone, before guidance starts."""
        each = _cross_entropy(self.network(batch.inputs), batch)
        main = (self._difficulty(batch, each) * each).mean()
        zero = torch.zeros_like(main)
        return {"loss": main, "main": main, "similar": zero, "guided": zero, "negative": zero}

    def _guided_losses(self, batch: Batch, number: int) -> Losses:
        """Eq. 13, with one forward of f_d for samples and partners."""
        rows, found = self.negatives.draw(batch, self._uniform(batch, number))
        inputs = torch.cat([batch.inputs, self.run.fetch(rows, number)])
        own, partner = _halves(self.network(inputs))
        each = _cross_entropy(own, batch)
        weight = self._difficulty(batch, each)  # w(x)
        score = self._score(rows) * found  # s(x^BN), 0 without a partner
        distance, guided_each = self._guidance(batch, own, partner)
        ramp = min(1.0, (number - self.guidance_step) / max(1, self.guided_steps - 1))
        main = (torch.where(found, ramp, 1.0) * weight * each).mean()  # eq. 8, times lambda_main
        similar = (score * distance).mean()  # eq. 9
        guided = (found * weight * guided_each).mean()  # eq. 10
        negative = (score * _cross_entropy(partner, batch)).mean()  # eq. 12
        loss = main
        if self.options.guidance_loss:
            loss = loss + self.options.lambda_sim * similar + guided  # eq. 11
        if self.uses_negatives:
            loss = loss + negative
        terms = {"main": main, "similar": similar, "guided": guided, "negative": negative}
        return {"loss": loss} | terms

    def _guidance(self, batch: Batch, own: Output, partner: Output) -> tuple[Tensor, Tensor]:
        """Distance to the guidance (eq. 9) and its cross-entropy (eq. 10), of each sample."""
        assert own.maps is not None
        head = self.network.head
        classes = None if self.options.explained == "prediction" else batch.target
        with torch.set_grad_enabled(self.options.exploitation_gradient):
            _, weight = intrinsic_maps(own, partner, head.weight, classes, tau=self.options.tau)
        features, guided = pooled_guidance(own.maps, weight.detach())
        towards = guided.detach() if self.options.detach else guided
        if self.options.exploitation_gradient:
            maps = own.maps.detach() if self.options.detach else own.maps
            _, towards = pooled_guidance(maps, weight)
        logits = F.linear(guided, head.weight, head.bias)
        each = F.cross_entropy(logits, batch.target, reduction="none")
        return guidance_distance(features, towards), each

    def _difficulty(self, batch: Batch, each: Tensor) -> Tensor:
        """w(x) of LfF, with this step's losses taken in, and a part of it shared evenly."""
        self.losses.update(batch.index, each)
        weight = relative_difficulty(
            self.biased_losses.relative(batch.index, batch.target),
            self.losses.relative(batch.index, batch.target),
        )
        return torch.lerp(weight, self.run.gather(weight).mean(), self.even)

    def _score(self, rows: Tensor) -> Tensor:
        score = self.negatives.score[rows].clamp(min=0)
        return score if self.options.score_weights else torch.ones_like(score)

    def _uniform(self, batch: Batch, number: int) -> Tensor:
        seed = self.run.seed("partners", number, self.run.devices.rank)
        drawn = torch.rand(len(batch.index), generator=torch.Generator().manual_seed(seed))
        return drawn.to(self.run.device, non_blocking=True)

    def __repr__(self) -> str:
        return repr(self.options)


def _cross_entropy(output: Output, batch: Batch) -> Tensor:
    return F.cross_entropy(output.logits, batch.target, reduction="none")


def _halves(output: Output) -> tuple[Output, Output]:
    """The output of two batches that went through the network as one."""
    assert output.maps is not None
    maps = output.maps.float()  # once, for all that is made of them
    parts = zip(output.logits.chunk(2), output.features.chunk(2), maps.chunk(2), strict=True)
    own, partner = (Output(*part) for part in parts)
    return own, partner
