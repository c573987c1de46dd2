"""Coloring gray digits: the palettes of the papers, and the two ways of applying a color."""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from crossbias.data.generated.strokes import CHUNK

Palette = dict[str, tuple[int, int, int]]

REBIAS: Final[Palette] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (225, 225, 0),  # 225 here and below, as in the authors' code
    "magenta": (225, 0, 225),
    "cyan": (0, 255, 255),
    "orange": (255, 128, 0),
    "rose": (255, 0, 128),
    "violet": (128, 0, 255),
    "grey": (128, 128, 128),
}

PGD: Final[Palette] = {
    "crimson": (220, 20, 60),
    "teal": (0, 128, 128),
    "yellow": (253, 233, 16),
    "bondi blue": (0, 149, 182),
    "orange": (237, 145, 33),
    "purple": (145, 30, 188),
    "cyan": (70, 240, 240),
    "pink": (250, 197, 187),
    "lime": (210, 245, 60),
    "maroon": (128, 0, 0),
}

LNL: Final[Palette] = {
    "red": (230, 25, 75),
    "teal": (0, 128, 128),
    "yellow": (255, 225, 25),
    "blue": (0, 130, 200),
    "orange": (245, 130, 48),
    "purple": (145, 30, 188),
    "cyan": (70, 240, 240),
    "pink": (250, 190, 190),
    "lime": (210, 245, 60),
    "maroon": (128, 0, 0),
}
"""Those of the authors' own images; their paper prints another blue, (0, 149, 182)."""

LFF: Final[Palette] = {
    "vermilion": (251, 80, 43),
    "yellow": (253, 233, 90),
    "mauve": (172, 118, 148),
    "sage": (200, 212, 153),
    "sky blue": (22, 198, 250),
    "green": (82, 245, 114),
    "blue": (6, 60, 193),
    "purple": (142, 26, 194),
    "olive": (53, 100, 5),
    "red": (213, 52, 68),
}

_ONE: Final = 1 << 16  # the fixed-point number that stands for a factor of 1


def colors(palette: Palette) -> Tensor:
    """The palette as a (10, 3) int64 tensor, 0..255."""
    return torch.tensor(list(palette.values()))


def color_background(grey: Tensor, colors: Tensor) -> Tensor:
    """White digits on a colored background, without intermediate gray, as ReBias draws them.

    Args:
        grey: ``(n, H, W)`` uint8 gray levels; exactly 0 is background.
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
    """Colored digits on black: the gray level times the color.

    Args:
        grey: ``(n, H, W)`` uint8 gray levels.
        colors: ``(n, 3)`` float64, where 1 is full brightness. Products below 0 or above 255 are
            clipped.

    Returns:
        ``(n, 3, H, W)`` uint8, rounded.
    """
    # Whole numbers from here on, colors in 65,536ths: every platform rounds them alike.
    factors = (colors * _ONE).round().to(torch.int32)[:, :, None, None]
    images = torch.empty(len(grey), 3, *grey.shape[1:], dtype=torch.uint8)
    for rows in _parts(images):
        product = grey[rows].unsqueeze(1).to(torch.int32) * factors[rows]
        images[rows] = (product.add_(_ONE // 2) >> 16).clamp_(0, 255)
    return images


def color_flat(grey: Tensor, colors: Tensor) -> Tensor:
    """Digits of one flat color on black: the color where the gray level is above 128, as LNL's.

    Args:
        grey: ``(n, H, W)`` uint8 gray levels.
        colors: ``(n, 3)`` 0..255.

    Returns:
        ``(n, 3, H, W)`` uint8.
    """
    return (grey > 128).to(torch.uint8).unsqueeze(1) * colors.to(torch.uint8)[:, :, None, None]


def _parts(images: Tensor) -> Iterator[slice]:
    """The rows to process at a time."""
    size = max(1, CHUNK // max(1, images[:1].numel()))
    for start in range(0, len(images), size):
        yield slice(start, start + size)
