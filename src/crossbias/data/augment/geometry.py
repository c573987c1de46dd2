"""Augmentations that move pixels, with a draw of its own for each image of a batch."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from crossbias.data.augment.step import Shape, Step
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, Interval, Positive, WholeNumber

_TRIES = 10  # draws of a random resized crop before the middle is used, as in torchvision


@dataclass(frozen=True)
class Flip(Step):
    """Mirror some images left to right."""

    probability: Fraction = 0.5

    def draw(self, count: int, shape: Shape, generator: Generator) -> Tensor:
        """Which images are mirrored, (B,)."""
        return torch.rand(count, generator=generator) < self.probability

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """The images, those that were drawn mirrored."""
        return torch.where(drawn[:, None, None, None], images.flip(3), images)


@dataclass(frozen=True)
class Crop(Step):
    """Pad with zeros and cut out a random square of ``size``, or of the image's own shape."""

    padding: WholeNumber = 4
    size: int = 0

    def draw(self, count: int, shape: Shape, generator: Generator) -> Tensor:
        """Top and left of the square in the padded image, (B, 2)."""
        sides = zip(shape, self.shape_after(shape), strict=True)
        room = torch.tensor([before + 2 * self.padding - after + 1 for before, after in sides])
        draws = torch.rand(2, count, generator=generator, dtype=torch.float64)
        return (draws * room[:, None]).long().T

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """The squares that were drawn."""
        height, width = self.shape_after((images.shape[2], images.shape[3]))
        padded = F.pad(images, [self.padding] * 4)
        top, left = drawn.unbind(1)
        rows = top[:, None] + torch.arange(height, device=images.device)  # (B, H)
        columns = left[:, None] + torch.arange(width, device=images.device)  # (B, W)
        batch = torch.arange(len(images), device=images.device)[:, None, None]
        # Indices around a slice put the channels last: (B, H, W, C).
        return padded[batch, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)

    def shape_after(self, shape: Shape) -> Shape:
        """The size, or the shape as it was."""
        return (self.size, self.size) if self.size else shape


@dataclass(frozen=True)
class RandomResizedCrop(Step):
    """Cut out a random part of each image and resize it to ``size``, or to the image's shape.

    Like torchvision's ``RandomResizedCrop``: the fraction of the image's area is uniform between
    ``low`` and ``high``, and the ratio of width to height is log-uniform between 3/4 and 4/3. The
    first of ten draws that fits into the image is used, or its middle if none fits. Resizing is
    bilinear without antialiasing.
    """

    low: Positive = 0.08
    high: Positive = 1.0
    size: int = 0

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise CrossbiasError(
                f"random-resized-crop needs low <= high, got {self.low:g} and {self.high:g}"
            )

    def draw(self, count: int, shape: Shape, generator: Generator) -> Tensor:
        """Top, left, height and width of the parts, (B, 4)."""
        return resized_crop_boxes(count, shape, self.low, self.high, generator)

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """The parts that were drawn, resized."""
        return cut_out(images, drawn, self.shape_after((images.shape[2], images.shape[3])))

    def shape_after(self, shape: Shape) -> Shape:
        """The size, or the shape as it was."""
        return (self.size, self.size) if self.size else shape


@dataclass(frozen=True)
class Rotate(Step):
    """Rotate each image by a random angle of up to ``degrees``; corners become zero.

    Pixels are interpolated, or taken from the nearest place of the image if ``nearest``.
    """

    degrees: Annotated[float, Interval(0, 180)] = 10.0
    nearest: bool = False

    def draw(self, count: int, shape: Shape, generator: Generator) -> Tensor:
        """Angles, (B,)."""
        return (2 * torch.rand(count, generator=generator) - 1) * math.radians(self.degrees)

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """The images, turned by the angles."""
        return turn(images, drawn, nearest=self.nearest)


def center_crop(images: Tensor, size: int) -> Tensor:
    """The middle square of images or clips; smaller ones stay whole."""
    height, width = images.shape[-2:]
    top, left = max(height - size, 0) // 2, max(width - size, 0) // 2
    return images[..., top : top + min(size, height), left : left + min(size, width)]


def resized_crop_boxes(
    count: int, shape: Shape, low: float, high: float, generator: Generator
) -> Tensor:
    """Top, left, height and width of random parts of images, (count, 4), whole numbers."""
    height, width = shape
    draws = torch.rand(2, count, _TRIES, generator=generator, dtype=torch.float64)
    area = height * width * (low + (high - low) * draws[0])
    ratio = torch.exp(math.log(3 / 4) + math.log(16 / 9) * draws[1])
    wide, tall = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (wide > 0) & (wide <= width) & (tall > 0) & (tall <= height)
    first = fits.int().argmax(1, keepdim=True)  # the first try that fits
    wide, tall = wide.gather(1, first).squeeze(1), tall.gather(1, first).squeeze(1)
    none = ~fits.any(1)
    wide[none], tall[none] = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    draws = torch.rand(2, count, generator=generator, dtype=torch.float64)
    room = torch.stack((height - tall, width - wide))
    top, left = torch.where(none, room // 2, (draws * (room + 1)).floor())
    return torch.stack((top, left, tall, wide), 1)


def cut_out(images: Tensor, boxes: Tensor, shape: Shape) -> Tensor:
    """Cut out the boxes (B, 4), top, left, height and width, of images and resize them."""
    top, left, tall, wide = boxes.to(images.dtype).unbind(1)
    rows = _places(shape[0], top, tall, images.shape[2])
    columns = _places(shape[1], left, wide, images.shape[3])
    grid = (columns[:, None, :].expand(-1, shape[0], -1), rows[:, :, None].expand(-1, -1, shape[1]))
    return F.grid_sample(images, torch.stack(grid, 3), padding_mode="border", align_corners=False)


def turn(images: Tensor, angles: Tensor, *, nearest: bool = False) -> Tensor:
    """Rotate images counter-clockwise by angles (B,) around their middle; zero outside."""
    height, width = images.shape[2:]
    cosine, sine, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    # Maps the result to the image, in coordinates from -1 to 1 along each side.
    top = torch.stack((cosine, -sine * height / width, zero), 1)
    bottom = torch.stack((sine * width / height, cosine, zero), 1)
    matrices = torch.stack((top, bottom), 1).to(images.dtype)  # (B, 2, 3)
    grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
    mode = "nearest" if nearest else "bilinear"
    return F.grid_sample(images, grid, mode=mode, align_corners=False)


def _places(size: int, start: Tensor, part: Tensor, side: int) -> Tensor:
    """Positions of the pixels of a resized part along a side from -1 to 1, (B, size)."""
    steps = torch.arange(size, device=part.device, dtype=part.dtype) + 0.5
    inside = steps * (part / size)[:, None] - 0.5  # in pixels; 0 is the middle of the first
    # Do not interpolate between the outermost pixels of the part and those beyond them.
    inside = inside.clamp(min=0).minimum((part - 1)[:, None])
    return (2 * (start[:, None] + inside) + 1) / side - 1
