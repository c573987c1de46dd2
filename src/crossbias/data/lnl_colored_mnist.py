"""Colored MNIST of LNL (CVPR 2019, section 4.1): each image's color is near its class's mean."""

import math
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from crossbias.data.assignment import biased_values
from crossbias.data.coloring import color_foreground
from crossbias.data.dataset import BiasedDataset
from crossbias.data.digit_sets import CLASSES, digit_set
from crossbias.data.draws import normal
from crossbias.data.originals import load_original
from crossbias.data.palettes import PGD, colors
from crossbias.data.source import Source
from crossbias.parameters import NonNegative
from crossbias.seeds import generator_for

SINGLE = "test-color-"


class LNLColoredMNIST(Source):
    """MNIST digits in colors drawn from a normal distribution around a mean color.

    In ``train``, all 60,000 training digits, the mean is that of the digit's class. In ``test``
    it is any of the ten, each equally often in every class, up to one. In ``test-color-0`` to
    ``test-color-9``, the test sets of the paper's Figure 5, it is that of one class for all
    digits. The bias is the number of the mean color. A color is cut to [0, 1] and multiplied with
    the grey level.

    Args:
        sigma2: Variance of each channel, for values in [0, 1]: .02 (most biased) to .05 in steps
            of .005 in the paper. In ``test`` it is the same.
    """

    name: ClassVar[str] = "colored-mnist-lnl"
    summary: ClassVar[str] = "MNIST digits in colors around a mean color (LNL)"
    splits: ClassVar[tuple[str, ...]] = (
        "train",
        "test",
        *(f"{SINGLE}{digit}" for digit in CLASSES),
    )
    network: ClassVar[str] = "lnl-convnet"

    def __init__(self, *, sigma2: NonNegative = 0.02) -> None:
        self.sigma2 = sigma2

    def published(self, split: str) -> dict[str, int]:
        """Sizes of the splits."""
        return {"images": 60_000 if split == "train" else 10_000}

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Color one split."""
        digits, targets = load_original("mnist", "train" if split == "train" else "t10k", root=root)
        biases = _means(split, targets, generator_for(seed, self.name, split, "mean"))
        noise = normal(len(targets), 3, generator=generator_for(seed, self.name, split, "color"))
        shades = (colors(PGD)[biases] / 255.0 + noise * math.sqrt(self.sigma2)).clamp(0, 1)
        return digit_set(
            color_foreground(digits, shades),
            targets,
            biases,
            name=self.name,
            split=split,
            bias="color",
            values=tuple(PGD),
            mean=(0.4914, 0.4822, 0.4465),  # CIFAR-10's, as in the authors' code
            std=(0.2023, 0.1994, 0.2010),
        )


def _means(split: str, targets: Tensor, generator: torch.Generator) -> Tensor:
    """Number of each image's mean color, (n,)."""
    if split == "train":
        return targets.clone()
    if split == "test":
        return biased_values(targets, values=len(PGD), rho=1 / len(PGD), generator=generator)
    return torch.full_like(targets, int(split.removeprefix(SINGLE)))
