"""Pictures as data: addresses, alone or with a map of where a model looks laid over them."""

import base64
import io
import math
from typing import Final

import matplotlib
import numpy as np
import torch.nn.functional as F
from matplotlib.image import imsave
from torch import Tensor

from crossbias.report.heatmap import COLORS

LONGEST_SIDE: Final = 192
"""Larger pictures are thinned out to at most this many pixels on each side."""

OVERLAY_SIDE: Final = 72
"""The same limit for pictures under a map, because a page holds many more of them."""

_PICTURE_SHARE = 0.4  # of the gray picture in an overlay; the map has the rest


def png(picture: Tensor, *, longest: int = LONGEST_SIDE) -> str:
    """A (C, H, W) uint8 picture as a data: address; other than RGB, its first channel in gray."""
    pixels = thinned(picture, longest).numpy()
    colors = pixels if len(pixels) == 3 else np.repeat(pixels[:1], 3, axis=0)
    return encoded(colors.transpose(1, 2, 0))


def overlay(picture: Tensor, heat: Tensor) -> str:
    """A (C, H, W) uint8 picture in gray under a map (h, w) of evidence.

    The largest number of the map is drawn lightest, and 0 and less darkest.
    """
    pixels = thinned(picture, OVERLAY_SIDE).float() / 255
    gray = pixels.mean(0)[..., None].numpy()  # (H, W, 1)
    spread = F.interpolate(heat.float()[None, None], pixels.shape[1:], mode="bilinear")[0, 0]
    positive = spread.nan_to_num(0).clamp(min=0)
    share = (positive / positive.max().clamp(min=1e-12)).numpy()
    colors = matplotlib.colormaps[COLORS](share)[..., :3]
    mixed = _PICTURE_SHARE * gray + (1 - _PICTURE_SHARE) * colors
    return encoded((255 * mixed).round().astype(np.uint8))


def encoded(pixels: np.ndarray) -> str:
    """An (H, W, 3) uint8 picture as a data: address."""
    buffer = io.BytesIO()
    imsave(buffer, np.ascontiguousarray(pixels), format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def thinned(picture: Tensor, longest: int) -> Tensor:
    """Every second, third, ... pixel of a (C, H, W) picture, so that its sides are short enough."""
    step = math.ceil(max(picture.shape[1:]) / longest)
    return picture[:, ::step, ::step]
