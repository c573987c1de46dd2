"""The tensors that travel between data, networks and methods."""

from typing import Final, NamedTuple

from torch import Tensor

UNKNOWN: Final = -1
"""Attribute value of a sample whose attribute is not known."""

Losses = dict[str, Tensor]
"""Scalars of one step, by name. ``"loss"`` is what was minimized; all of them are logged."""


class Batch(NamedTuple):
    """One mini-batch on the device, augmented and normalized."""

    inputs: Tensor  # (B, C, H, W) images, (B, C, T, H, W) clips or (B, D) vectors, floating point
    target: Tensor  # (B,) int64
    bias: Tensor  # (B,) int64, UNKNOWN where no label is known
    # (B,) int64, row in the full training set, stable under subset(); hides tuple.index
    index: Tensor  # type: ignore[assignment]


class Output(NamedTuple):
    """Everything a method may need of a network, from one forward."""

    logits: Tensor  # (B, K)
    features: Tensor  # (B, D), what the head sees
    maps: (
        Tensor | None
    )  # (B, D, h, w), or (B, D, t, h, w) of clips, what was pooled; None where nothing was
    tapped: Tensor | None = None  # what the layer named by Network.tap gave; None without one
