"""LNL: features that a second network cannot read the bias from."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import (
    bias_cross_entropy,
    color_levels,
    confusion,
    gradient_reversal,
    negative_conditional_entropy,
)
from crossbias.methods.erm import ERM
from crossbias.networks.bias_predictors import bias_predictor, check_predictable, middle_layer
from crossbias.networks.network import Network
from crossbias.parameters import Count, NonNegative, Positive, PositiveFraction
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses, Output

if TYPE_CHECKING:
    from crossbias.train.run import Run

UNLEARNING: dict[str, Callable[[Tensor], Tensor]] = {
    "entropy": negative_conditional_entropy,
    "confusion": confusion,
}


class LNL(Method):
    """Learning Not to Learn (Kim et al., CVPR 2019), eqs. 6 to 9.

    The network is cut in two, f and g. A bias network h learns to predict the bias from f's
    output; f learns to be useful to g and useless to h. Two updates a batch, as released::

        f, g: min CE(g(f(x)), y) + lambda E[sum_b Q(b|f(x)) log Q(b|f(x))],  Q = h, fixed
        h:    min L_B = CE(h(f(x)), b),  while f takes a step along -mu times its gradient

    Args:
        target: What h predicts: the bias ``labels``, by one linear layer on pooled features; or
            the ``color`` levels of the image itself on a coarse grid, by two convolutions for
            each channel, which needs no labels.
        view: What h sees when it predicts a ``color``: the surroundings of each ``position``, as
            released, or the whole ``image``, as g does, whose levels it then predicts as one
            distribution. Labels are always predicted from the whole.
        layer: Name of the last layer of f, such as ``body.5``. If empty the lower half of the
            convolutions, a ResNet without its last stage, or else the whole body.
        unlearn: The objective that makes h's prediction uninformative: the paper's negative
            conditional ``entropy``, or the ``confusion`` loss of BlindEye.
        lambda_f: Its weight, the paper's lambda; .01 in the authors' code. With 0 what is left
            is gradient reversal (GRL of Table 1).
        mu: How strongly the gradient of h's loss is reversed into f; .1 in the authors' code.
            With 0 that loss trains h alone (Ours-adv, or with ``confusion`` BlindEye).
        from_biased: Start from a network that plain training has biased, as the authors do,
            instead of from fresh weights.
        biased_epochs: Length of that training; the configured number of epochs if not given.
        lr_factor: Learning rate after it over the configured one; the authors go from .01 to
            .001.
        bias_lr_factor: Learning rate of h over that of f and g; 1 in the authors' code.
    """

    paper: ClassVar[str] = "LNL (CVPR 2019)"
    capturable: ClassVar[bool] = True

    def __init__(
        self,
        *,
        target: Literal["labels", "color"] = "labels",
        view: Literal["position", "image"] = "position",
        layer: str = "",
        unlearn: Literal["entropy", "confusion"] = "entropy",
        lambda_f: NonNegative = 0.01,
        mu: NonNegative = 0.1,
        from_biased: bool = True,
        biased_epochs: Count | None = None,
        lr_factor: PositiveFraction = 0.1,
        bias_lr_factor: Positive = 1.0,
    ) -> None:
        self.target = target
        self.view = view
        self.layer = layer
        self.unlearn = unlearn
        self.lambda_f = lambda_f
        self.mu = mu
        self.from_biased = from_biased
        self.biased_epochs = biased_epochs
        self.lr_factor = lr_factor
        self.bias_lr_factor = bias_lr_factor

    @property
    def supervision(self) -> Supervision:  # type: ignore[override]  # here it is a keyword's
        """Colors are read from the images."""
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
            lambda: bias_predictor(self.target, run.data, shape, self.view),
            replace(config, lr=config.lr * self.bias_lr_factor),
        )

    def fit(self, run: "Run") -> Network:
        """Biased network, then unlearning."""
        biased = None
        if self.from_biased:
            self._checked_layer(run)  # before the biased training, not after it
            biased = run.train(ERM(), name="biased", epochs=self.biased_epochs)
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
            tapped = self.run.until_tap(self.network, batch.inputs)  # of the f just updated
            tapped = gradient_reversal(tapped, scale=self.mu)
        loss = bias_cross_entropy(self.bias_network(tapped), self._bias(batch, tapped))  # eq. 7
        self.run.minimize(loss, self.bias_optimizer, partial=self.optimizer if reverses else None)
        return {"bias": loss}

    def _bias(self, batch: Batch, tapped: Tensor) -> Tensor:
        if self.target == "labels":
            return batch.bias
        mean, std = self.loader.mean, self.loader.std
        return color_levels(batch.inputs, mean=mean, std=std, size=tapped.shape[-1])

    def _checked_layer(self, run: "Run") -> tuple[str, torch.Size]:
        """The last layer of f and what it gives for a sample, from which h can be made."""
        network = run.outline()
        network.tap(self.layer or middle_layer(network))
        sample = next(run.loader(run.data).batches([torch.arange(1)])).inputs.cpu()
        with torch.no_grad():
            shape = network.until_tap(sample).shape[1:]
        check_predictable(self.target, run.data, shape)
        return network.tapped_layer, shape


def _tapped(output: Output) -> Tensor:
    """What f gives: the named layer's output, or where there is none the body's."""
    if output.tapped is not None:
        return output.tapped
    return output.features if output.maps is None else output.maps
