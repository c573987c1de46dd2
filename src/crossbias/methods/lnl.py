"""LNL: features that a second network cannot read the bias from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.functional import (
    IGNORED,
    LEVELS,
    bias_cross_entropy,
    color_levels,
    confusion,
    gradient_reversal,
    negative_conditional_entropy,
)
from crossbias.methods.erm import ERM
from crossbias.methods.followed_bias import followed_bias_symptoms
from crossbias.networks.bias_predictors import ColorPredictor, LabelPredictor, middle_layer
from crossbias.networks.network import Network
from crossbias.parameters import Count, NonNegative, PositiveFraction
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

UNLEARNING: dict[str, Callable[[Tensor], Tensor]] = {
    "entropy": negative_conditional_entropy,
    "confusion": confusion,
}

# Below this part of the loss at chance, h has learned something: with a few hundred samples in an
# epoch, the loss of an h at chance varies by less.
_AT_CHANCE = 0.98


@dataclass(kw_only=True)
class LNL(Method):
    """Learning Not to Learn (Kim et al., CVPR 2019), eqs. 6 to 9.

    The network is cut in two, f and g. A bias network h learns to predict the bias from f's
    output; f learns to be useful to g and useless to h. Each batch makes two updates, as in the
    authors' code::

        f, g: min CE(g(f(x)), y) + lambda E[sum_b Q(b|f(x)) log Q(b|f(x))],  Q = h, fixed
        h:    min L_B = CE(h(f(x)), b),  while f takes a step along -mu times its gradient

    Args:
        target: What h predicts. ``labels`` are the bias labels, predicted by one linear layer on
            pooled features. ``color`` is the levels of the image's own colors on a coarse grid,
            predicted by two convolutions for each channel; it needs no labels.
        layer: Name of the last layer of f, such as ``body.5``. If empty, f is the lower half of
            the convolutions, a ResNet without its last stage, or else the whole body.
        unlearn: The objective that makes h's prediction uninformative: the paper's negative
            conditional ``entropy``, or the ``confusion`` loss of BlindEye.
        lambda_f: Weight of that objective, the paper's lambda; .01 in the authors' code. With 0
            only gradient reversal is left (GRL in Table 1).
        mu: How strongly the gradient of h's loss is reversed into f; .1 in the authors' code.
            With 0 that loss trains h alone (Ours-adv, or with ``confusion`` BlindEye).
        from_biased: Start from a network that plain training has biased, as the authors do,
            instead of from fresh weights.
        biased_epochs: Length of that training; the configured number of epochs if not given.
        lr_factor: Learning rate after that training, divided by the configured one; the authors
            go from .01 to .001.
    """

    name: ClassVar[str] = "lnl"
    paper: ClassVar[str] = "LNL (CVPR 2019)"
    capturable: ClassVar[bool] = True

    target: Literal["labels", "color"] = "labels"
    layer: str = ""
    unlearn: Literal["entropy", "confusion"] = "entropy"
    lambda_f: NonNegative = 0.01
    mu: NonNegative = 0.1
    from_biased: bool = True
    biased_epochs: Count | None = None
    lr_factor: PositiveFraction = 0.1

    @property
    def supervision(self) -> Supervision:  # type: ignore[override]  # depends on a keyword here
        """Bias labels; for colors only the kind, since they are read from the images."""
        return "bias labels" if self.target == "labels" else "kind of bias"

    def setup(self, run: "Run") -> None:
        """Build f and g, and h for what f gives."""
        self.run = run
        self.loader = run.loader(run.data)
        layer, shape = self._checked_layer(run)
        factor = self.lr_factor if self.from_biased else 1.0
        config = replace(run.config, lr=run.config.lr * factor)
        self.network, self.optimizer = run.build(None, config)
        self.network.tap(layer)
        self.bias_network, self.bias_optimizer = run.build(
            lambda: self._bias_predictor(run.data, shape), config
        )

    def fit(self, run: "Run") -> Network:
        """Biased network, then unlearning."""
        biased = None
        if self.from_biased:
            self._checked_layer(run)  # before the biased training, not after it
            biased = run.train(ERM(), name="biased", epochs=self.biased_epochs)
            if self.biased_epochs is None:
                run.plain = biased
        network = run.train(self, network=biased)
        network.tap("")
        return network

    def step(self, batch: Batch) -> Losses:
        """The two updates."""
        return self._step_task(batch) | self._step_bias(batch)

    def state(self) -> dict[str, Any]:
        """Both networks and both optimizers."""
        return super().state() | {
            "bias_network": self.bias_network,
            "bias_optimizer": self.bias_optimizer,
        }

    def examine(self, epochs: Sequence[Mapping[str, float]]) -> None:
        """Warn where h was never better than chance, or where the bias was not unlearned."""
        chance = self._entropy()
        lowest = min(epoch["bias"] for epoch in epochs)
        if lowest > _AT_CHANCE * chance:
            what = "color" if self.target == "color" else str(self.run.data.bias)
            self.run.warn(
                "nothing to unlearn",
                f"The bias network never predicted {what} better than chance: its loss was "
                f"{lowest:.2f} at best, and always answering with the frequencies has "
                f"{chance:.2f}. There was nothing to unlearn.",
                "Name a layer that shows the bias with layer, let the bias network learn faster "
                "with a higher train.lr or lr_factor, or take another method.",
            )
        remedy = (
            "Unlearn more with a higher mu or lambda_f, name an earlier layer with layer, or "
            "compare with group-balanced."
        )
        for symptom in followed_bias_symptoms(self.run, self.network, remedy):
            self.run.warn(*symptom)

    def _step_task(self, batch: Batch) -> Losses:
        output = self.network(batch.inputs)
        task = F.cross_entropy(output.logits, batch.target)
        prediction = self.run.fixed(self.bias_network, _tapped(output))
        unlearned = UNLEARNING[self.unlearn](prediction)
        loss = task + self.lambda_f * unlearned  # first two terms of eq. 9
        self.run.minimize(loss, self.optimizer)
        return {"loss": loss, "task": task, self.unlearn: unlearned}

    def _step_bias(self, batch: Batch) -> Losses:
        reverses = self.mu > 0
        with torch.set_grad_enabled(reverses):  # else f is fixed here
            tapped = self.run.until_tap(self.network, batch.inputs)  # by the f just updated
            tapped = gradient_reversal(tapped, scale=self.mu)
        loss = bias_cross_entropy(self.bias_network(tapped), self._bias(batch, tapped))  # eq. 7
        self.run.minimize(loss, self.bias_optimizer, partial=self.optimizer if reverses else None)
        return {"bias": loss}

    def _bias(self, batch: Batch, tapped: Tensor) -> Tensor:
        if self.target == "labels":
            return batch.bias
        mean, std = self.loader.mean, self.loader.std
        return color_levels(batch.inputs, mean=mean, std=std, size=tapped.shape[-1])

    def _entropy(self) -> float:
        """The loss of an h that knows nothing but how frequent each value is."""
        if self.target == "labels":
            counts = self.run.data.counts().sum(0).double()
        else:
            _, shape = self._checked_layer(self.run)
            counts = torch.zeros(LEVELS, dtype=torch.float64)
            for batch in self.run.batches():
                levels = color_levels(
                    batch.inputs, mean=self.loader.mean, std=self.loader.std, size=shape[-1]
                ).flatten()
                counts += levels[levels != IGNORED].cpu().bincount(minlength=LEVELS)
        return float(torch.special.entr(counts / counts.sum()).sum())

    def _bias_predictor(self, data: BiasedDataset, shape: torch.Size) -> nn.Module:
        """The network h, for a layer that gives ``shape`` for a sample."""
        if self.target == "labels":
            return LabelPredictor(shape[0], data.num_biases)
        return ColorPredictor(shape[0], data.inputs.shape[1], LEVELS)

    def _checked_layer(self, run: "Run") -> tuple[str, torch.Size]:
        """The last layer of f and the shape of its output, from which h can be made."""
        network = run.outline()
        network.tap(self.layer or middle_layer(network))
        sample = next(run.loader(run.data).batches([torch.arange(1)])).inputs.cpu()
        with torch.no_grad():
            shape = network.until_tap(sample).shape[1:]
        if self.target == "labels":
            _check_labels(run.data, shape)
        else:
            _check_colors(run.data, shape)
        return network.tapped_layer, shape


def _tapped(output: Output) -> Tensor:
    """The output of f: the named layer's, or the body's where no layer is named."""
    if output.tapped is not None:
        return output.tapped
    return output.features if output.maps is None else output.maps


def _check_labels(data: BiasedDataset, shape: torch.Size) -> None:
    """Refuse data without two bias values, or a layer that h cannot read labels from."""
    if (data.counts().sum(0) > 0).sum() < 2:
        raise CrossbiasError(
            f"there is nothing to unlearn: attribute {data.bias!r} of {data.name} has only one "
            f"value; name another attribute, or unlearn the color with target='color'"
        )
    if len(shape) not in (1, 3):
        raise CrossbiasError(
            f"bias labels are predicted from features (D) or maps (D, h, w), but the layer gives "
            f"{tuple(shape)}; name another layer"
        )


def _check_colors(data: BiasedDataset, shape: torch.Size) -> None:
    """Refuse inputs that are no images, or a layer that gives no square grid."""
    if data.inputs.ndim != 4 or len(shape) != 3 or shape[1] != shape[2]:
        raise CrossbiasError(
            f"color is predicted on a square grid from images, but {data.name} has inputs "
            f"{tuple(data.inputs.shape[1:])}, for which the layer gives {tuple(shape)}; name a "
            f"layer that gives square maps, or use target='labels'"
        )
