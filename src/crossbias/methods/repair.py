"""REPAIR: weigh the training samples so that a probe cannot solve them, and keep the heavy ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.formatting import percent
from crossbias.functional import Keep, kept_by_weight, representation_bias
from crossbias.methods.erm import ERM
from crossbias.methods.given_features import given_features
from crossbias.methods.kept_samples import report_kept
from crossbias.methods.symptoms import (
    class_share_symptoms,
    has_learned,
    largest_class,
    training_accuracy,
)
from crossbias.networks.network import Network
from crossbias.parameters import Count, Fraction, Positive, PositiveFraction
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run

_LEAST_SPREAD = 0.01  # standard deviation below which the weights of all samples are the same


@dataclass(kw_only=True)
class REPAIR(Method):
    """REPAIR (Li & Vasconcelos, CVPR 2019): resample so that a representation is not enough.

    A probe learns the task from weighted samples, while the weights move so that it cannot. Each
    sample has a weight w = sigmoid(v), with v = 0 at the start::

        probe: min CE_w
        v:     min 1 - CE_w / H_w

    where CE_w is the weighted cross-entropy of the probe and H_w that of knowing only how
    frequent the weighted classes are. The final network is trained on what the weights keep.

    Args:
        keep: ``sample`` draws samples in proportion to their weight (S), ``threshold`` keeps
            weights above the threshold (T), ``rank`` the heaviest fraction of all samples (R),
            and ``class-rank`` that of each class (PR).
        redraw: With ``sample``, draw anew in every epoch, as PGD's authors do (ICLR 2022
            submission), instead of drawing once which samples are kept, as the release does.
        threshold: Weight above which ``threshold`` keeps a sample; .5 in the release.
        fraction: Fraction that ``rank`` and ``class-rank`` keep; .5 in the release.
        features: A ``.npy`` file with one row for each row of the training set, from which a
            linear probe learns: a representation that shows the bias. If empty, the probe is a
            network like the final one, which needs to know nothing about the bias.
        probe_epochs: Length of the game; the configured number of epochs if not given, 200 in the
            release.
        weight_lr: Learning rate of v; 10 in the release, with batches of 128.
    """

    name: ClassVar[str] = "repair"
    paper: ClassVar[str] = "REPAIR (CVPR 2019)"
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {"sampling": ("weights",)}

    keep: Keep = "sample"
    redraw: bool = True
    threshold: Fraction = 0.5
    fraction: PositiveFraction = 0.5
    features: str = ""
    probe_epochs: Count | None = None
    weight_lr: Positive = 10.0

    @property
    def supervision(self) -> Supervision:  # type: ignore[override]  # depends on a keyword here
        """Nothing; features from a file are chosen because they show the bias."""
        return "kind of bias" if self.features else "none"

    def fit(self, run: "Run") -> Network:
        """The game, then the final network on what its weights keep."""
        rows = (run.data.full_size,)
        weights = run.stage("weights", lambda: self._weights(run), shape=rows)
        if self.keep == "sample" and self.redraw:
            for symptom in class_share_symptoms(weights, run.data):
                run.warn(*symptom)
            return run.train(ERM(), weights=weights)
        kept = run.stage("kept", lambda: self._kept(run, weights), shape=rows)
        remedy = "Keep more with a lower threshold, a larger fraction or fewer probe_epochs."
        report_kept(run, kept[run.data.index] > 0, remedy=remedy)
        return run.train(ERM(), weights=kept > 0)

    def _weights(self, run: "Run") -> Tensor:
        """The weight of each row, (full_size,); zero for rows that are not in the run's data."""
        game, probing = WeightGame(weight_lr=self.weight_lr, linear=bool(self.features)), run
        if self.features:
            probing = _on_features(run, given_features(self.features, run.data))
        config = replace(run.config, augment=()) if self.features else None
        probe = probing.train(game, name="probe", epochs=self.probe_epochs, config=config)
        weights = torch.zeros(run.data.full_size)
        weights[run.data.index] = game.scores.sigmoid().cpu()[run.data.index]
        self._examine(run, training_accuracy(probing, probe).overall, weights[run.data.index])
        return weights

    def _kept(self, run: "Run", weights: Tensor) -> Tensor:
        """1 for rows that are kept, 0 for the others, (full_size,)."""
        kept = torch.zeros(run.data.full_size)
        kept[run.data.index] = kept_by_weight(
            weights[run.data.index],
            run.data.targets,
            keep=self.keep,
            classes=run.data.num_classes,
            threshold=self.threshold,
            fraction=self.fraction,
            generator=torch.Generator().manual_seed(run.seed("repair")),
        ).float()
        return kept

    def _examine(self, run: "Run", accuracy: float, weights: Tensor) -> None:
        """Warn where the weights cannot say which samples the bias solves."""
        if not has_learned(accuracy, run.data):
            run.warn(
                "probe solves nothing",
                f"The probe is right on {percent(accuracy)} of the training samples, hardly more "
                f"often than the largest class occurs ({percent(largest_class(run.data))}): there "
                f"is no bias that it could show.",
                "Train it longer with probe_epochs, raise train.lr, or give it other features.",
            )
        spread = float(weights.std(correction=0))
        if spread < _LEAST_SPREAD:
            run.warn(
                "weights hardly moved",
                f"The weights of the samples have a standard deviation of {spread:.4f}: what is "
                f"kept is nearly the same as without them.",
                "Train the probe longer with probe_epochs, or raise weight_lr.",
            )


@dataclass(kw_only=True)
class WeightGame(Method):
    """Trains a probe on weighted samples, and the weights against it.

    Args:
        weight_lr: Learning rate of v.
        linear: Whether the probe is a linear layer on vectors, instead of the run's network.
    """

    paper: ClassVar[str] = "REPAIR (CVPR 2019)"
    capturable: ClassVar[bool] = True

    weight_lr: Positive
    linear: bool

    def setup(self, run: "Run") -> None:
        """Build the probe, and v for all rows."""
        self.run = run
        sizes = run.data.inputs.shape[-1], run.data.num_classes
        made = (lambda: Network(nn.Identity(), nn.Linear(*sizes))) if self.linear else None
        self.network, self.optimizer = run.build(made)
        self.scores = torch.zeros(run.data.full_size, device=run.device)  # v
        self.rows, self.targets = (
            part.to(run.device) for part in (run.data.index, run.data.targets)
        )

    def step(self, batch: Batch) -> Losses:
        """One update of the probe and one of v, both from the same losses and weights."""
        logits = self.network(batch.inputs).logits
        each = F.cross_entropy(logits, batch.target, reduction="none")
        weights = self.scores.sigmoid()
        loss = (weights[batch.index] / weights[self.rows].mean() * each).mean()
        self.run.minimize(loss, self.optimizer)
        bias = self._step_weights(batch, each.detach())
        return {"loss": loss, "task": each.detach().mean(), "bias": bias}

    def state(self) -> dict[str, Any]:
        """Probe, optimizer and v."""
        return super().state() | {"scores": self.scores}

    def _step_weights(self, batch: Batch, each: Tensor) -> Tensor:
        """Move v by the losses of the whole batch, the same on every process."""
        index, target, losses = (
            self.run.gather(part) for part in (batch.index, batch.target, each)
        )
        scores = self.scores.detach().requires_grad_()
        weights = scores.sigmoid()
        bias = representation_bias(
            losses,
            target,
            weights[index],
            all_weights=weights[self.rows],
            all_targets=self.targets,
            classes=self.run.data.num_classes,
        )
        (gradient,) = torch.autograd.grad(bias, scores)
        with torch.no_grad():
            self.scores.sub_(self.weight_lr * gradient)
        return bias.detach()


def _on_features(run: "Run", features: Tensor) -> "Run":
    """The run with features in place of inputs; nothing can be validated there."""
    own = features[run.data.index]
    vectors = replace(run.data, inputs=own, crop=0, augment=(), mean=(0.0,), std=(1.0,), digest="")
    child = run.nested("features", data=vectors, last=False)
    child.validation = None
    return child
