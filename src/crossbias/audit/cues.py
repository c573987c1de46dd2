"""Cheap cues: a few numbers for each image that capture one kind of shortcut and little else."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.progress import Progress

_SMALLEST = 8  # side of the smallest image on which every cue can be measured
_CHUNK = 2**23  # values measured at a time, so that no float copy of all data is needed


class Cue(NamedTuple):
    """A kind of shortcut, and the features (n, d) that capture it."""

    name: str
    what: str
    features: Tensor


def image_cues(images: Tensor, *, progress: Progress | None = None) -> list[Cue]:
    """Every cue in the pixels of (n, C, H, W) uint8 images, ordered by how little it captures."""
    progress = progress or Progress()
    factor = math.ceil(_SMALLEST / min(images.shape[2:]))
    if factor > 1:
        images = images.repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    size = max(1, _CHUNK // math.prod(images.shape[1:]))
    found: dict[str, list[Tensor]] = {name: [] for name in _IMAGE_CUES}
    for start in range(0, len(images), size):
        chunk = images[start : start + size]
        pixels = chunk.float()
        for name, (_, function) in _IMAGE_CUES.items():
            found[name].append(function(chunk, pixels))
        done = start + len(chunk)
        if 4 * done // len(images) > 4 * start // len(images):  # a line every quarter
            progress.note(f"measured {done:,} of {len(images):,} images")
    return [Cue(name, what, torch.cat(found[name])) for name, (what, _) in _IMAGE_CUES.items()]


def border_marks(chunk: Tensor, pixels: Tensor) -> Tensor:
    """How much the four sides and corners stand out from the image further in, (n, 16 C).

    At each of them, take three neighboring strips, each a sixteenth of the image wide, from the
    edge inward. The features are the second difference, first - 2 second + third, and its square.
    A background that is even, or changes steadily across the image, gives zero.
    """
    grid = F.adaptive_avg_pool2d(pixels, (16, 16))
    corners = (grid, grid.flip(2), grid.flip(3), grid.flip((2, 3)))
    lines = [torch.diagonal(corner, dim1=2, dim2=3) for corner in corners]
    lines += [grid.mean(3), grid.mean(3).flip(2), grid.mean(2), grid.mean(2).flip(2)]
    marks = torch.cat([line[..., 0] - 2 * line[..., 1] + line[..., 2] for line in lines], 1)
    return torch.cat([marks, marks.square()], 1)


def colors(chunk: Tensor, pixels: Tensor) -> Tensor:
    """Which colors there are, anywhere: histogram, mean and deviation of the channels.

    Three channels share one histogram of 4 x 4 x 4 bins. With any other number, each channel has
    16 bins. The histogram holds the roots of the shares, so that small ones count.
    """
    n, channels = chunk.shape[:2]
    if channels == 3:
        levels = (chunk >> 6).flatten(2).int()
        bins, number = 16 * levels[:, 0] + 4 * levels[:, 1] + levels[:, 2], 64
    else:
        levels = (chunk >> 4).flatten(2).int()
        bins = (levels + 16 * torch.arange(channels).view(1, -1, 1)).flatten(1)
        number = 16 * channels
    cells = bins + number * torch.arange(n).unsqueeze(1)
    counts = torch.bincount(cells.flatten(), minlength=n * number).view(n, number)
    deviation, mean = torch.std_mean(pixels.flatten(2), 2, correction=0)
    return torch.cat([(counts / bins.shape[1]).sqrt(), mean, deviation], 1)


def texture(chunk: Tensor, pixels: Tensor) -> Tensor:
    """How neighboring pixels differ in brightness, relative to the image's contrast, (n, 16).

    The features are mean and deviation of the responses of four small filters, at two scales.
    """
    gray = pixels.mean(1, keepdim=True)
    contrast = gray.flatten(1).std(1, correction=0) + 1
    found = []
    for _ in range(2):
        across, down = gray[..., 1:] - gray[..., :-1], gray[..., 1:, :] - gray[..., :-1, :]
        diagonal = across[..., 1:, :] - across[..., :-1, :]
        curved = across[..., 1:] - across[..., :-1]
        for response in (across, down, diagonal, curved):
            deviation, mean = torch.std_mean(response.abs().flatten(1), 1, correction=0)
            found += [(mean / contrast + 0.01).log(), (deviation / contrast + 0.01).log()]
        gray = F.avg_pool2d(gray, 2)
    return torch.stack(found, 1)


def thumbnail(chunk: Tensor, pixels: Tensor) -> Tensor:
    """The image shrunk to 4 x 4 pixels, (n, 16 C)."""
    return F.adaptive_avg_pool2d(pixels, (4, 4)).flatten(1)


_IMAGE_CUES: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "border marks": ("what stands out at borders and corners", border_marks),
    "texture": ("how neighboring pixels differ, anywhere in the image", texture),
    "color": ("which colors or shades there are, anywhere in the image", colors),
    "thumbnail": ("the image shrunk to 4 x 4 pixels", thumbnail),
}
