"""LfF: two networks side by side, one that fails on what the other should learn."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import generalized_cross_entropy, relative_difficulty
from crossbias.methods.bias_ensemble import Division, ensemble_division
from crossbias.methods.even_share import even_share
from crossbias.methods.loss_table import LossTable
from crossbias.methods.symptoms import biased_network_symptoms, training_accuracy
from crossbias.networks.network import Network
from crossbias.parameters import Count, Fraction, Positive, PositiveFraction
from crossbias.train.method import Method
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run


@dataclass(kw_only=True)
class LfF(Method):
    """Learning from failure (Nam et al., NeurIPS 2020), and with BiasEnsemble (AAAI 2023).

    Two networks of the same kind see the same batches. The biased one, f_b, is trained with
    generalized cross-entropy and follows the shortcut. The other, f_d, is trained with
    cross-entropy times a weight for each sample::

        w = l_b / (l_b + l_d)

    where l_b and l_d are moving averages of the sample's cross-entropy under the two networks,
    each divided by the largest of its class. The weight is near 1 where only f_b fails.

    With ``ensemble`` (Lee et al., AAAI 2023) briefly trained biased networks say which samples
    match the bias, and f_b is trained on these alone, with plain cross-entropy.

    Args:
        q: Exponent of generalized cross-entropy, of f_b or of the ensemble; .7 in both papers.
        released_gce: Give f_b q times the gradient of generalized cross-entropy, as in the code of
            LfF, behind its rows in the tables of others. With SGD it is another rate, with Adam
            hardly anything. An ensemble is trained without it.
        alpha_loss: Weight of a new loss in the averages; .3 in the code of both.
        ensemble: Train f_b on the samples of which an ensemble is certain (BiasEnsemble).
        members: Networks in the ensemble; 5 in BiasEnsemble.
        ensemble_length: Length of each member's training; 1000 of 50000 steps in BiasEnsemble. A
            fraction means at least 50 steps, but not more than the training has.
        confidence: Probability above which a member is certain; .99 in BiasEnsemble.
        uniform: Part of the weights that all samples of a batch share evenly. If it is not given,
            .8 with two classes, as for IE, and 0 with more, as in the papers. With two classes,
            samples on which f_b fails else teach f_d the opposite of what a class looks like.
    """

    name: ClassVar[str] = "lff"
    paper: ClassVar[str] = "LfF (NeurIPS 2020)"

    q: PositiveFraction = 0.7
    released_gce: bool = False
    alpha_loss: PositiveFraction = 0.3
    ensemble: bool = False
    members: Count = 5
    ensemble_length: Positive = 0.02
    confidence: Fraction = 0.99
    uniform: Fraction | None = None

    def fit(self, run: "Run") -> Network:
        """The ensemble if there is one, the training, and a look at f_b."""
        division = self._division(run) if self.ensemble else None
        training = self._training(division)
        network = run.train(training)
        accuracy = training_accuracy(run, training.biased_network)
        for symptom in biased_network_symptoms(accuracy, run.data, length="train.epochs"):
            run.warn(*symptom)
        return network

    def _training(self, division: Division | None) -> "FailureTraining":
        return FailureTraining(options=self, division=division)

    def _division(self, run: "Run") -> Division:
        return ensemble_division(
            run,
            members=self.members,
            length=self.ensemble_length,
            q=self.q,
            confidence=self.confidence,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class FailureTraining(Method):
    """Trains f_b and f_d together.

    Args:
        options: The method, whose hyper-parameters hold.
        division: Which samples are aligned; all of them, with another loss, if not given.
    """

    paper: ClassVar[str] = "LfF (NeurIPS 2020)"
    capturable: ClassVar[bool] = True

    options: LfF
    division: Division | None

    def setup(self, run: "Run") -> None:
        """Build f_d and f_b, and the tables of their losses."""
        super().setup(run)
        self.biased_network, self.biased_optimizer = run.build()
        self._make_tables(run)

    def step(self, batch: Batch) -> Losses:
        """One update of each network; the weights know the losses of this batch."""
        logits, biased_logits = (
            network(batch.inputs).logits for network in (self.network, self.biased_network)
        )
        each, biased_each = (
            F.cross_entropy(found, batch.target, reduction="none")
            for found in (logits, biased_logits)
        )
        weight = self._difficulty(batch, each, biased_each)
        loss = (weight * each).mean()
        biased = self._biased_loss(
            self._whole(batch), self.run.gather(biased_logits), self.run.gather(biased_each)
        )
        self.run.minimize(biased, self.biased_optimizer)
        self.run.minimize(loss, self.optimizer)
        return {"loss": loss, "biased": biased, "weight": weight.mean()}

    def state(self) -> dict[str, Any]:
        """Both networks and optimizers, and the tables."""
        return super().state() | {
            "biased_network": self.biased_network,
            "biased_optimizer": self.biased_optimizer,
            "biased_losses": self.biased_losses.values,
            "losses": self.losses.values,
        }

    def _make_tables(self, run: "Run") -> None:
        self.biased_losses = LossTable(run, weight=self.options.alpha_loss)
        self.losses = LossTable(run, weight=self.options.alpha_loss)
        self.aligned = self.division and self.division.aligned.float().to(run.device)
        self.even = even_share(self.options.uniform, run.data.num_classes)

    def _difficulty(self, batch: Batch, each: Tensor, biased_each: Tensor) -> Tensor:
        """w(x), without gradient, a part of it shared evenly."""
        self.biased_losses.update(batch.index, biased_each)
        self.losses.update(batch.index, each)
        weight = relative_difficulty(
            self.biased_losses.relative(batch.index, batch.target),
            self.losses.relative(batch.index, batch.target),
        )
        return torch.lerp(weight, self.run.gather(weight).mean(), self.even)

    def _whole(self, batch: Batch) -> Batch:
        """Targets and indices of the batch of all processes."""
        gather = self.run.gather
        return batch._replace(target=gather(batch.target), index=gather(batch.index))

    def _biased_loss(self, batch: Batch, logits: Tensor, each: Tensor) -> Tensor:
        """Generalized cross-entropy, or cross-entropy of the aligned samples of a whole batch."""
        if self.aligned is None:
            loss = generalized_cross_entropy(logits, batch.target, q=self.options.q).mean()
            return self.options.q * loss if self.options.released_gce else loss
        chosen = self.aligned[batch.index]
        return (chosen * each).sum() / chosen.sum().clamp(min=1)  # a batch may have none

    def __repr__(self) -> str:
        return repr(self.options)
