"""Putting colors into grey digits."""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from crossbias.data.strokes import CHUNK

_ONE: Final = 1 << 16


def color_background(grey: Tensor, colors: Tensor) -> Tensor:
    """White digits on a colored background, without the grey in between, as ReBias draws them.

    Args:
        grey: ``(n, H, W)`` uint8; a pixel is background where it is exactly 0.
        colors: ``(n, 3)`` 0..255.

    Returns:
        ``(n, 3, H, W)`` uint8.
    """
    paper = colors.to(torch.uint8)[:, :, None, None]
    images = torch.empty(len(grey), 3, *grey.shape[1:], dtype=torch.uint8)
    for rows in _parts(images):
        white = (grey[rows] != 0).to(torch.uint8).mul_(255).unsqueeze(1)
        torch.bitwise_or(white, paper[rows], out=images[rows])  # all bits of white are set
    return images


def color_foreground(grey: Tensor, colors: Tensor) -> Tensor:
    """Colored digits on black: the grey level times the color.

    Args:
        grey: ``(n, H, W)`` uint8.
        colors: ``(n, 3)`` float64; 1 is the brightest a byte can be, and what is brighter or
            darker than possible after multiplication is cut off.

    Returns:
        ``(n, 3, H, W)`` uint8, rounded.
    """
    # Colors in 65,536ths and whole numbers from here on: no platform rounds them differently.
    factors = (colors * _ONE).round().to(torch.int32)[:, :, None, None]
    images = torch.empty(len(grey), 3, *grey.shape[1:], dtype=torch.uint8)
    for rows in _parts(images):
        product = grey[rows].unsqueeze(1).to(torch.int32) * factors[rows]
        images[rows] = (product.add_(_ONE // 2) >> 16).clamp_(0, 255)
    return images


def _parts(images: Tensor) -> Iterator[slice]:
    """Rows to work on at a time."""
    size = max(1, CHUNK // max(1, images[:1].numel()))
    for start in range(0, len(images), size):
        yield slice(start, start + size)
