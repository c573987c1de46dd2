"""Colors and patterns that can be told apart, as many as a cue may have values."""

from typing import Final

import torch
from torch import Tensor

MOST_VALUES: Final = 63
"""As many as there are tiles."""

TILE: Final = 8
"""Side of a tile."""


def hues(count: int) -> Tensor:
    """Evenly spaced colors of full saturation around the color wheel, (count, 3), 0..255."""
    sixth = torch.arange(count, dtype=torch.float64)[:, None] * 6 / count
    # A channel is full within one sixth of its own place on the wheel, and gone from two on.
    away = (sixth - torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64)).abs()
    return ((2 - torch.minimum(away, 6 - away)).clamp(0, 1) * 255 + 0.5).floor()


def tiles() -> Tensor:
    """63 patterns of -1 and 1, (63, 8, 8), each half and half, each two differing in half.

    The two-dimensional Walsh functions without the constant one. The finest come first: they are
    what images themselves have least of.
    """
    signs = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(3):  # Sylvester's construction
        signs = torch.cat((torch.cat((signs, signs), 1), torch.cat((signs, -signs), 1)))
    changes = (signs[:, 1:] != signs[:, :-1]).sum(1)
    fineness = (changes[:, None] + changes).flatten()
    patterns = torch.einsum("iy,jx->ijyx", signs, signs).reshape(-1, TILE, TILE)
    return patterns[fineness.argsort(descending=True, stable=True)[:MOST_VALUES]]
