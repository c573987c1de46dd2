"""Augmentations that change colors, with a draw of its own for each image of a batch."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Generator, Tensor

from crossbias.data.augment.step import Shape, Step
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, Interval, NonNegative

_WEIGHTS = (0.2989, 0.587, 0.114)  # weights of red, green and blue in the gray level


@dataclass(frozen=True)
class Jitter(Step):
    """Change brightness, then saturation, then hue of each image by its own draw.

    Like torchvision's ``ColorJitter`` in this order: the factors of brightness and saturation
    are uniform in [max(0, 1 - x), 1 + x], and the hue turns by up to ``hue`` of the color circle
    in either direction.
    """

    brightness: NonNegative = 0.0
    saturation: NonNegative = 0.0
    hue: Annotated[float, Interval(0, 0.5)] = 0.0

    def draw(self, count: int, shape: Shape, generator: Generator) -> Tensor:
        """Numbers in [0, 1) for brightness, saturation and hue, (B, 3)."""
        return torch.rand(3, count, generator=generator).T

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """The images in other colors."""
        of_brightness, of_saturation, of_hue = drawn.unbind(1)
        if self.brightness:
            images = scale_brightness(images, _factors(of_brightness, self.brightness))
        if self.saturation:
            images = scale_saturation(images, _factors(of_saturation, self.saturation))
        if self.hue:
            images = turn_hue(images, (2 * of_hue - 1) * self.hue)
        return images


@dataclass(frozen=True)
class Grey(Step):
    """Turn some images gray."""

    probability: Fraction = 0.1

    def draw(self, count: int, shape: Shape, generator: Generator) -> Tensor:
        """Which images turn gray, (B,)."""
        return torch.rand(count, generator=generator) < self.probability

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """The images, those that were drawn without color."""
        colorless = brightness_of(images).expand_as(images)
        return torch.where(drawn[:, None, None, None], colorless, images)


def scale_brightness(images: Tensor, factors: Tensor) -> Tensor:
    """Images times (B,) factors, clipped at white."""
    return (images * _each(factors, images)).clamp(0, 1)


def scale_saturation(images: Tensor, factors: Tensor) -> Tensor:
    """Images mixed with their gray: 0 gives gray, 1 the image, more a more colorful image."""
    factors = _each(factors, images)
    return (factors * images + (1 - factors) * brightness_of(images)).clamp(0, 1)


def turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Images whose hue is rotated by (B,) turns of the color circle."""
    _check_color(images)
    largest, smallest = images.amax(1), images.amin(1)
    chroma = largest - smallest  # (B, H, W)
    hue = (_hue(images, largest, chroma) + turns[:, None, None].to(images.dtype)) % 1
    # A channel is the largest value minus a part of the chroma, which depends on the distance
    # between the hue and that of the channel.
    sixths = 5 - 2 * torch.arange(3, device=images.device, dtype=images.dtype)
    distance = (sixths[:, None, None] + 6 * hue[:, None]) % 6  # (B, 3, H, W)
    part = torch.minimum(distance, 4 - distance).clamp(0, 1)
    return largest[:, None] - chroma[:, None] * part


def brightness_of(images: Tensor) -> Tensor:
    """The gray level of images, (B, 1, H, W)."""
    if images.shape[1] == 1:
        return images
    _check_color(images)
    red, green, blue = images.unbind(1)
    return (_WEIGHTS[0] * red + _WEIGHTS[1] * green + _WEIGHTS[2] * blue).unsqueeze(1)


def _hue(images: Tensor, largest: Tensor, chroma: Tensor) -> Tensor:
    """Hue of every pixel in turns, (B, H, W); 0 where there is no color."""
    red, green, blue = images.unbind(1)
    divisor = torch.where(chroma == 0, torch.ones_like(chroma), chroma)
    sixths = torch.where(
        largest == red,
        (green - blue) / divisor,
        torch.where(largest == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    return (sixths / 6) % 1


def _factors(draws: Tensor, spread: float) -> Tensor:
    low = max(0.0, 1 - spread)
    return low + (1 + spread - low) * draws


def _each(numbers: Tensor, images: Tensor) -> Tensor:
    return numbers.to(images.dtype)[:, None, None, None]


def _check_color(images: Tensor) -> None:
    if images.shape[1] != 3:
        raise CrossbiasError(
            f"hue and saturation need images of 3 channels, got {images.shape[1]}; "
            f"leave jitter and grey out, or read the images with 3 channels"
        )
