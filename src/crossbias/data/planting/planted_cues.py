"""Cues that can be put into any image: a color, a brightness, a texture, a watermark, a patch.

The same values give the same bytes on every platform: sums of whole numbers, and elementwise
operations that IEEE 754 defines to the last bit.
"""

from collections.abc import Callable
from typing import Final, Literal, get_args

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown

PlantedCue = Literal["color", "watermark", "brightness", "texture", "patch"]

MOST_VALUES: Final = 63  # largest number of values of a cue: the number of tiles

TILE: Final = 8  # side of a tile in pixels

_CHUNK: Final = 1 << 20  # numbers processed at a time; affects only memory and speed
LUMA: Final = (299, 587, 114)  # red, green, blue in lightness, in thousandths, ITU-R BT.601


def plant_values(images: Tensor, values: Tensor, *, bias: PlantedCue, num_values: int) -> Tensor:
    """Put a cue into each image that shows the given value.

    ``color``: every pixel keeps its lightness, at 69% contrast, and takes the color of the value;
    all colors are equally light. ``brightness``: the image is darkened or brightened until its
    mean is that of the value, evenly spaced from 64 to 192. ``texture``: a fine pattern of
    amplitude 24 covers the whole image. ``watermark``: a half-transparent square pattern at the
    bottom right. ``patch``: an opaque square at the top left, in the color of the value, or in its
    gray level if images do not have three channels.

    Nothing is clipped at black or white, so the image under a cue, other than a patch, could be
    recovered up to rounding.

    Args:
        images: ``(n, C, H, W)`` uint8, 8 x 8 or larger, without a cue of this kind.
        values: ``(n,)`` int64 from 0 to ``num_values - 1``.
        bias: The kind of cue.
        num_values: Number of values that the cue can have, 2 to 63; decides how they look.

    Returns:
        ``(n, C, H, W)`` uint8; the cue ``color`` turns one channel into three.

    >>> black = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> plant_values(black, torch.tensor([0, 1]), bias="brightness", num_values=2)[:, 0, 0, 0]
    tensor([ 64, 192], dtype=torch.uint8)
    """
    _check(images, values, bias, num_values)
    paint = _PAINTERS[bias]
    if bias == "color" and images.shape[1] == 1:
        images = images.expand(-1, 3, -1, -1)
    planted = torch.empty(images.shape, dtype=torch.uint8)
    size = max(1, _CHUNK // max(1, images[:1].numel()))
    for start in range(0, len(images), size):
        rows = slice(start, start + size)
        pixels = paint(images[rows].double(), values[rows], num_values)
        planted[rows] = pixels.add_(0.5).to(torch.uint8)
    return planted


def _color(pixels: Tensor, values: Tensor, num_values: int) -> Tensor:
    luma = torch.tensor(LUMA, dtype=torch.float64)
    palette = hues(num_values)
    tint = palette - (palette * luma).sum(1, keepdim=True) / 1000  # its lightness is 0
    tint = tint / tint.abs().amax(1, keepdim=True)
    lightness = (pixels * luma.view(3, 1, 1)).sum(1, keepdim=True) / 1000
    return _mixed(lightness, tint[values][:, :, None, None], amplitude=40)


def _brightness(pixels: Tensor, values: Tensor, num_values: int) -> Tensor:
    goal = (64 + values.double() * 128 / (num_values - 1)).view(-1, 1, 1, 1)
    mean = pixels.sum((1, 2, 3), keepdim=True) / pixels[0].numel()
    darker = pixels * (goal / mean.clamp(min=1))
    brighter = 255 - (255 - pixels) * ((255 - goal) / (255 - mean).clamp(min=1))
    return torch.where(mean > goal, darker, brighter)


def _texture(pixels: Tensor, values: Tensor, num_values: int) -> Tensor:
    height, width = pixels.shape[2:]
    rows, columns = torch.arange(height) % TILE, torch.arange(width) % TILE
    pattern = tiles()[:num_values, rows[:, None], columns]
    return _mixed(pixels, pattern[values].unsqueeze(1), amplitude=24)


def _watermark(pixels: Tensor, values: Tensor, num_values: int) -> Tensor:
    cell, margin = _places(pixels)
    mark = tiles()[:num_values].repeat_interleave(cell, 1).repeat_interleave(cell, 2)
    place = _square(pixels.shape[2] - margin, pixels.shape[3] - margin, -len(mark[0]))
    pixels[place] = _mixed(pixels[place], mark[values].unsqueeze(1), amplitude=64)
    return pixels


def _patch(pixels: Tensor, values: Tensor, num_values: int) -> Tensor:
    cell, margin = _places(pixels)
    if pixels.shape[1] == 3:
        look = hues(num_values)
    else:
        look = torch.arange(num_values, dtype=torch.float64)[:, None] * 255 / (num_values - 1)
    pixels[_square(margin, margin, 4 * cell)] = look[values][:, :, None, None]
    return pixels


_PAINTERS: Final[dict[PlantedCue, Callable[[Tensor, Tensor, int], Tensor]]] = {
    "color": _color,
    "watermark": _watermark,
    "brightness": _brightness,
    "texture": _texture,
    "patch": _patch,
}


def _mixed(pixels: Tensor, pattern: Tensor, *, amplitude: float) -> Tensor:
    """Pixels with less contrast plus a pattern from -1 to 1; the result is in 0..255."""
    return amplitude + pixels * ((255 - 2 * amplitude) / 255) + amplitude * pattern


def _places(pixels: Tensor) -> tuple[int, int]:
    """Size of a cell, and of the margin that a crop of the middle may cut off, in pixels."""
    side = min(pixels.shape[2:])
    cell = max(1, side // 28)
    return cell, min(side // 8, side - TILE * cell)


def _square(top: int, left: int, side: int) -> tuple[slice, slice, slice, slice]:
    """A square from a corner to the bottom right, or to the top left if the side is negative."""
    low, high = sorted((0, side))
    everything = slice(None)
    return everything, everything, slice(top + low, top + high), slice(left + low, left + high)


def _check(images: Tensor, values: Tensor, bias: str, num_values: int) -> None:
    if bias not in get_args(PlantedCue):
        raise unknown("there is no cue", bias, get_args(PlantedCue))
    if images.dtype != torch.uint8 or images.ndim != 4 or min(images.shape[2:]) < TILE:
        raise CrossbiasError(
            f"a {bias} can be planted into (n, C, H, W) uint8 images of {TILE} x {TILE} pixels or "
            f"more, got {tuple(images.shape)} {images.dtype}"
        )
    if bias == "color" and images.shape[1] not in (1, 3):
        raise CrossbiasError(f"a color needs images of 1 or 3 channels, got {images.shape[1]}")
    if not 2 <= num_values <= MOST_VALUES:
        raise CrossbiasError(f"a cue has 2 to {MOST_VALUES} values, got {num_values}")
    if values.shape != images.shape[:1] or values.dtype != torch.int64:
        raise CrossbiasError(
            f"{len(images)} images need as many int64 values, got {tuple(values.shape)} "
            f"{values.dtype}"
        )
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < num_values:
        raise CrossbiasError(f"values must lie in 0..{num_values - 1}")


def hues(count: int) -> Tensor:
    """Evenly spaced colors of full saturation around the color wheel, (count, 3), 0..255."""
    sixth = torch.arange(count, dtype=torch.float64)[:, None] * 6 / count
    # A channel is full within one sixth of its place on the wheel, and zero beyond two sixths.
    away = (sixth - torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64)).abs()
    return ((2 - torch.minimum(away, 6 - away)).clamp(0, 1) * 255 + 0.5).floor()


def tiles() -> Tensor:
    """63 patterns of -1 and 1, (63, 8, 8), each half and half; any two differ in half the cells.

    These are the two-dimensional Walsh functions without the constant one. The finest come first,
    because images themselves contain them least.
    """
    signs = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(3):  # Sylvester's construction
        signs = torch.cat((torch.cat((signs, signs), 1), torch.cat((signs, -signs), 1)))
    changes = (signs[:, 1:] != signs[:, :-1]).sum(1)
    fineness = (changes[:, None] + changes).flatten()
    patterns = torch.einsum("iy,jx->ijyx", signs, signs).reshape(-1, TILE, TILE)
    return patterns[fineness.argsort(descending=True, stable=True)[:MOST_VALUES]]
