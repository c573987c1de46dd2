"""The tensors that travel between data, networks and methods."""

from typing import Final, NamedTuple

from torch import Tensor

UNKNOWN: Final = -1
"""The value of an attribute that is not known for a sample."""

Losses = dict[str, Tensor]
"""The scalars of one step by name. ``"loss"`` is what was minimized; all of them are logged."""


class Batch(NamedTuple):
    """One mini-batch on the device, augmented and normalized."""

    inputs: Tensor  # (B, C, H, W) images, (B, C, T, H, W) clips or (B, D) vectors, floating point
    target: Tensor  # (B,) int64
    bias: Tensor  # (B,) int64, UNKNOWN where no label is known
    # (B,) int64, row in the full training set, stable under subset(); hides tuple.index
    index: Tensor  # type: ignore[assignment]
    group: Tensor  # (B,) int64, target * number of bias values + bias; UNKNOWN as the bias is


class Output(NamedTuple):
    """Everything a method may need from a network, from one forward pass."""

    logits: Tensor  # (B, K)
    features: Tensor  # (B, D), what the head sees
    # (B, D, h, w), for clips (B, D, t, h, w): what was pooled into the features, if anything
    maps: Tensor | None
    tapped: Tensor | None = None  # the output of the layer that Network.tap names, if any
