"""The colors of the papers' digits: red, green and blue of each class's own."""

from typing import Final

import torch
from torch import Tensor

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
"""Also taken for LNL's, of which the paper prints classes 1 and 3, and calls class 0 reddish."""

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


def colors(palette: Palette) -> Tensor:
    """The palette as a (10, 3) int64 tensor, 0..255."""
    return torch.tensor(list(palette.values()))
