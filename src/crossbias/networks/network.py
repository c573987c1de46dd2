"""Network: a body, average pooling and a linear head, with everything from one forward."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from crossbias.errors import CrossbiasError
from crossbias.functional.precision import at_least_float32, no_autocast
from crossbias.parameters import unknown
from crossbias.types import Output

Normalization = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of images in [0, 1], by channel."""


class Network(nn.Module):
    """A classifier split where de-biasing methods need it: before its last, linear layer.

    Args:
        body: Maps a batch to feature maps ``(B, D, h, w)``, which are averaged over space; or to
            features ``(B, D)``; or to a pair ``(maps or None, features)`` where the pooling is
            the body's own.
        head: The linear layer from features to logits.

    Attributes:
        note: What a person should know about its weights, such as a head that was left out.

    >>> import torch
    >>> network = Network(nn.Conv2d(3, 8, 3), nn.Linear(8, 10))
    >>> output = network(torch.zeros(2, 3, 28, 28))
    >>> output.logits.shape, output.features.shape, output.maps.shape
    (torch.Size([2, 10]), torch.Size([2, 8]), torch.Size([2, 8, 26, 26]))
    """

    # That of the images it was trained on; None for a network that crossbias did not train.
    normalization: Normalization | None = None

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.tapped_layer = ""
        self.note = ""

    @property
    def num_classes(self) -> int:
        """Number of logits."""
        return self.head.out_features

    @property
    def num_features(self) -> int:
        """Number of features the head sees."""
        return self.head.in_features

    def tap(self, layer: str) -> None:
        """From now on, forward also returns what an inner layer gives, as ``Output.tapped``.

        Args:
            layer: Name of a module of the body, as ``named_modules`` of this network writes it:
                ``body.0`` or ``body.layer3``. Its output must be one tensor. Empty for none.
        """
        layers = [name for name, _ in self.named_modules() if name.startswith("body")]
        if layer and layer not in layers:
            raise unknown("the network has no layer", layer, layers, "its layers are")
        self.tapped_layer = layer

    def forward(self, inputs: Tensor) -> Output:
        """Logits, features and maps of a batch."""
        found, tapped = self._body_and_tapped(inputs)
        maps, features = pooled(found)
        if features.ndim != 2 or features.shape[1] != self.num_features:
            raise CrossbiasError(
                f"the body gives features of shape {tuple(features.shape)}, but the head takes "
                f"(batch, {self.num_features}); pass a head of nn.Linear({features.shape[-1]}, "
                f"{self.num_classes}) or a body that ends in {self.num_features} features"
            )
        # In float32: rounded to bf16, the little that a shape adds to averaged colors is lost.
        with no_autocast(features):
            logits = self.head(at_least_float32(features))
        return Output(logits, features, maps, tapped)

    def until_tap(self, inputs: Tensor) -> Tensor:
        """What the tapped layer gives, at the cost of the layers up to it.

        Without a tapped layer what the body gives: its maps, or its features where it has none.
        """
        if not self.tapped_layer:
            maps, features = pooled(self.body(inputs))
            return features if maps is None else maps

        def stop(_layer: nn.Module, _inputs: Any, output: Any) -> None:
            raise _Reached(output)

        with self.get_submodule(self.tapped_layer).register_forward_hook(stop):
            try:
                self.body(inputs)
            except _Reached as reached:
                return self._one_tensor([reached.output])
        return self._one_tensor([])

    def _body_and_tapped(self, inputs: Tensor) -> tuple[Any, Tensor | None]:
        if not self.tapped_layer:
            return self.body(inputs), None
        seen: list[Any] = []
        layer = self.get_submodule(self.tapped_layer)
        # Registered for one forward only: a lasting hook would point to the original in copies.
        with layer.register_forward_hook(lambda _layer, _inputs, output: seen.append(output)):
            return self.body(inputs), self._one_tensor(seen)

    def _one_tensor(self, seen: list[Any]) -> Tensor:
        found = seen[0] if seen else None
        if not isinstance(found, Tensor):
            what = f"gives a {type(found).__name__}" if seen else "is not run by the network"
            raise CrossbiasError(
                f"layer {self.tapped_layer!r} {what}; name one whose output is one tensor"
            )
        return found


class _Reached(Exception):
    """The tapped layer has run: what comes after it is not needed."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


def has_batch_norm(network: nn.Module) -> bool:
    """Whether the network has statistics of the batch, which one sample cannot give."""
    batch_norm = nn.modules.batchnorm._BatchNorm
    return any(isinstance(module, batch_norm) for module in network.modules())


@contextmanager
def evaluation(network: nn.Module) -> Iterator[None]:
    """Inside this the network is in evaluation mode; afterwards in the mode it was in."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def buffers_kept(*networks: nn.Module) -> Iterator[None]:
    """Put running statistics back as they were, in place: a pass that only looks changes nothing.

    >>> norm = nn.BatchNorm1d(1)
    >>> with buffers_kept(norm):
    ...     _ = norm(torch.tensor([[1.0], [3.0]]))
    >>> norm.running_mean
    tensor([0.])
    """
    saved = [(buffer, buffer.clone()) for network in networks for buffer in network.buffers()]
    try:
        yield
    finally:
        for buffer, before in saved:
            buffer.copy_(before)


def pooled(found: Tensor | tuple[Tensor | None, Tensor]) -> tuple[Tensor | None, Tensor]:
    """Maps, if there are any, and features, from what a body gives."""
    if isinstance(found, tuple):
        return found
    if found.ndim == 2:
        return None, found
    return found, averaged(found)


def averaged(maps: Tensor) -> Tensor:
    """The mean over space, (B, D, ...) -> (B, D), in float32 or better."""
    mean: Tensor = _MeanOverSpace.apply(maps)
    return mean


class _MeanOverSpace(torch.autograd.Function):
    """The mean over space, (B, D, ...) -> (B, D), whose gradient is a view of one number a map.

    Torch's own gradient fills a whole batch of maps, on CUDA in another memory format than the
    layer before, which then takes as long as a convolution.
    """

    generate_vmap_rule = True  # per-sample gradients go through here

    @staticmethod
    def forward(maps: Tensor) -> Tensor:
        return maps.flatten(2).mean(2, dtype=torch.promote_types(maps.dtype, torch.float32))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        (maps,) = inputs
        ctx.space, ctx.dtype = maps.shape[2:], maps.dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        each: Tensor = (gradient / math.prod(ctx.space)).to(ctx.dtype)
        return each.view(*each.shape, *(1 for _ in ctx.space)).expand(*each.shape, *ctx.space)
