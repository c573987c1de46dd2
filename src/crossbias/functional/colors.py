"""LNL's self-supervised bias target: the colors of an image, coarse in value and in place."""

from typing import Final

import torch
from torch import Tensor

IGNORED: Final = -100
"""Level of a place without color, which torch's cross-entropy leaves out by default."""

LEVELS: Final = 8


def color_levels(
    images: Tensor, *, mean: Tensor | float = 0.0, std: Tensor | float = 1.0, size: int = 14
) -> Tensor:
    """The color bias b(x) of LNL (CVPR 2019, section 5) as class numbers, made from the images.

    Each image is subsampled to ``size x size`` by taking the pixel nearest to the middle of each
    field, and each channel's 0..255 is cut into eight even levels, one for each 32 values. As in
    the authors' code, a channel that is exactly 0 has no level there: on the black background
    there is nothing to predict. Cross-entropy over a batch in which a channel has no level at all
    is undefined, which the caller has to allow for.

    Works on the batch a network sees, augmented and normalized, so that the levels lie where its
    maps lie. Values are rounded to whole 0..255, which undoes the normalization exactly.

    Args:
        images: ``(B, C, H, W)``, uint8, or floating-point, (values in [0, 1] - mean) / std.
        mean: What was subtracted from floating-point images; a tensor must broadcast with them.
        std: What they were divided by.
        size: Side of the grid. At 14 the paper's subsampling by four: every other row and column
            of 28 x 28.

    Returns:
        ``(B, C, size, size)`` int64, 0..7, and ``IGNORED`` (-100) where a channel is 0.

    >>> images = torch.tensor([0, 31, 32, 255], dtype=torch.uint8).view(1, 1, 2, 2)
    >>> color_levels(images, size=2)
    tensor([[[[-100,    0],
              [   1,    7]]]])
    """
    rows, columns = (_nearest(length, size, images.device) for length in images.shape[2:])
    colors = images[:, :, rows[:, None], columns]
    if colors.is_floating_point():
        colors = ((colors.float() * std + mean) * 255).round().clamp(0, 255)
    levels = colors.long() // (256 // LEVELS)
    return torch.where(colors == 0, IGNORED, levels)


def _nearest(length: int, size: int, device: torch.device) -> Tensor:
    """The pixel in the middle of each of ``size`` fields, floor((i + 1/2) * length / size)."""
    return (2 * torch.arange(size, device=device) + 1) * length // (2 * size)
