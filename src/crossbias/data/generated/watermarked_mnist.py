"""Watermarked MNIST of PGD (ICLR 2022 submission, appendix B.1): a garment is the bias."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import torch
from torch import Tensor

from crossbias.data.assignment import below
from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.digit_source import AUGMENT, PGDSource
from crossbias.data.generated.originals import Original
from crossbias.parameters import Fraction, Interval
from crossbias.seeds import generator_for

OBJECTS: Final = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
SIDE: Final = 28


@dataclass(kw_only=True)
class WatermarkedMNIST(PGDSource):
    """MNIST digits with a Fashion-MNIST object beside them, on a canvas of 56 x 56.

    The object is on the left, a random number of pixels below the top edge. The digit is on the
    right, a random number of pixels above the bottom edge. They never overlap. Digit k is aligned
    with object class k: exactly floor(n * rho + 1/2) of the n images of a class have a random
    object of that class, and the others are spread over the other classes, with counts that
    differ by at most one. Both collections are split as in ``colored-mnist``, so no object of
    ``validation`` or of a test split is in ``train``.

    Args:
        rho: The paper's bias ratio: .995, .99 or .95.
        offset: Largest distance from the edges in pixels, the paper's alpha: 8 or 16.
    """

    name = "watermarked-mnist"
    summary = "MNIST digits beside a Fashion-MNIST object (PGD)"

    rho: Fraction = 0.99
    offset: Annotated[int, Interval(0, SIDE)] = 8

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Put digits and objects on the canvas."""
        digits, targets = self.originals("mnist", split, root)
        objects = self.originals("fashion-mnist", split, root)
        classes, choice, place = (
            generator_for(seed, self.name, split, purpose)
            for purpose in ("class", "choice", "place")
        )
        biases = self.biases(split, targets, classes)
        down, up = below(self.offset + 1, 2, len(targets), generator=place)
        canvas = torch.zeros(len(targets), 1, 2 * SIDE, 2 * SIDE, dtype=torch.uint8)
        _put(_chosen(objects, biases, choice), canvas[:, 0, :, :SIDE], top=down)
        _put(digits, canvas[:, 0, :, SIDE:], top=SIDE - up)
        return self.assembled(
            split, canvas, targets, biases, bias="object", values=OBJECTS,
            augment=(AUGMENT[0], AUGMENT[2]),  # gray images have no colors to change
        )  # fmt: skip


def _chosen(objects: Original, classes: Tensor, generator: torch.Generator) -> Tensor:
    """A random object of each requested class, (n, 28, 28)."""
    order = objects.labels.argsort(stable=True)
    counts = torch.bincount(objects.labels, minlength=len(OBJECTS))
    first = counts.cumsum(0) - counts
    fraction = torch.rand(len(classes), dtype=torch.float64, generator=generator)
    return objects.images[order[first[classes] + (fraction * counts[classes]).long()]]


def _put(images: Tensor, canvas: Tensor, *, top: Tensor) -> None:
    """Write images, (n, 28, 28), into a strip of the canvas, (n, 56, 28), from row ``top`` on."""
    rows = top[:, None] + torch.arange(SIDE)  # (n, 28)
    canvas[torch.arange(len(images))[:, None], rows] = images
