"""Glyphs: drawn digits whose color is the bias, made in memory at any size."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import torch
from torch import Tensor

from crossbias.data.assignment import biased_values, shuffled
from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.digit_source import DigitSource
from crossbias.data.generated.strokes import CHUNK, draw
from crossbias.parameters import Count, Fraction, Interval
from crossbias.seeds import generator_for

COLORS: Final = {
    "red": (210, 25, 45),
    "orange": (235, 110, 20),
    "yellow": (190, 160, 0),
    "lime": (110, 180, 0),
    "green": (20, 130, 50),
    "teal": (0, 150, 160),
    "blue": (40, 90, 230),
    "violet": (130, 60, 220),
    "magenta": (220, 40, 170),
    "brown": (150, 95, 50),
}
"""Red, green and blue of the bias values; none is close to ``WHITE`` or ``GREY``."""

WHITE: Final = (255, 255, 255)
GREY: Final = (32, 32, 32)

NOISE: Final = 16  # largest change of a pixel by noise; too small to turn one color into another

ColoredPart = Literal["background", "foreground", "corner"]


@dataclass(kw_only=True)
class Glyphs(DigitSource):
    """Handwritten-looking digits whose color is associated with the class.

    Class k is aligned with color k. Exactly floor(n * rho + 1/2) of the n images of a class have
    color k; the others share the remaining nine colors, with counts that differ by at most one.
    The sizes of the classes differ by at most one as well. Which images conflict is random and
    independent of the drawing: another ``rho`` or ``bias`` colors the same strokes.

    The splits ``train``, ``validation`` and ``test-biased`` are biased with ``rho``. In ``test``
    all (target, bias) groups have the same size, up to one image. Each split has its own drawings.

    Args:
        size: Number of images in ``train``. The defaults leave 10 conflicting images per class:
            enough for a method to learn from, few enough for plain training to ignore.
        test_size: Number of images in each other split; 20 per group of ``test`` by default.
        image_size: Height and width in pixels; a digit needs 16.
        rho: Fraction of each class that has the color of that class.
        bias: The colored part, also the name of the attribute: the ``background`` of a white
            digit, the stroke itself (``foreground``) on dark gray, or a square in the top left
            ``corner`` of a white digit on dark gray.
    """

    name = "glyphs"
    summary = "drawn digits with a colored background, stroke or corner; no download"
    splits = ("train", "validation", "test", "test-biased")
    network = "small-convnet"

    size: Count = 10_000
    test_size: Count = 2_000
    image_size: Annotated[int, Interval(16, math.inf)] = 28
    rho: Fraction = 0.99
    bias: ColoredPart = "background"

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Draw and color one split; nothing is read from ``root``."""
        order, strokes, noise, color = (
            generator_for(seed, self.name, split, purpose)
            for purpose in ("order", "strokes", "noise", "color")
        )
        count = self.size if split == "train" else self.test_size
        targets = shuffled(torch.arange(count) % len(COLORS), order)
        rho = 1 / len(COLORS) if split == "test" else self.rho
        biases = biased_values(targets, values=len(COLORS), rho=rho, generator=color)
        ink = draw(targets, image_size=self.image_size, generator=strokes)
        images = _painted(ink, biases, self.bias, noise)
        normalization = {"mean": (0.5,) * 3, "std": (0.5,) * 3}
        return self.assembled(
            split, images, targets, biases, bias=self.bias, values=tuple(COLORS), **normalization
        )


def _painted(ink: Tensor, biases: Tensor, bias: ColoredPart, generator: torch.Generator) -> Tensor:
    """Color the drawings, (n, S, S) ink, into (n, 3, S, S) uint8 images."""
    noise = torch.randint(2 * NOISE + 1, ink.shape, dtype=torch.uint8, generator=generator)
    images = torch.empty(len(ink), 3, *ink.shape[1:], dtype=torch.uint8)
    white, grey = (torch.tensor(color).view(1, 3, 1, 1) for color in (WHITE, GREY))
    palette = torch.tensor(list(COLORS.values())).view(-1, 3, 1, 1)
    chunk = max(1, CHUNK // images[0].numel())
    for start in range(0, len(ink), chunk):
        rows = slice(start, start + chunk)
        color = palette[biases[rows]]
        paper = color if bias == "background" else grey
        pen = color if bias == "foreground" else white
        image = paper + (pen - paper) * ink[rows].unsqueeze(1).float() / 255
        if bias == "corner":
            side = ink.shape[-1] // 7
            image[..., :side, :side] = color
        image += noise[rows].unsqueeze(1).float() - NOISE
        images[rows] = image.clamp_(0, 255).add_(0.5).to(torch.uint8)
    return images
