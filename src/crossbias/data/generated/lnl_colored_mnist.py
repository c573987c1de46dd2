"""Colored MNIST of LNL (CVPR 2019, section 4.1): colors scatter around the mean of the class."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from crossbias.data.assignment import biased_values, normal_between
from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.coloring import LNL, color_flat, colors
from crossbias.data.generated.digit_source import CLASSES, DigitSource
from crossbias.data.planting.planted_cues import LUMA
from crossbias.parameters import NonNegative
from crossbias.seeds import generator_for

SINGLE = "test-color-"


@dataclass(kw_only=True)
class LNLColoredMNIST(DigitSource):
    """MNIST digits, each in one flat color drawn from a normal distribution around a mean color.

    The images are drawn like the authors' own: a pixel has the color of its image where its gray
    level is above 128, and is black elsewhere. A channel of the color is drawn again while it is
    outside [1, 255), and rounded down, so that no channel of a digit is 0.

    The bias is the number of the mean color. In ``train``, all 60,000 training digits, it is that
    of the digit's class. In ``test`` every class has each of the ten equally often, up to one. In
    ``test-color-0`` to ``test-color-9``, the test sets of the paper's Figure 5, all digits have
    the same mean color.

    Args:
        sigma2: Variance of each channel, for values in [0, 1], in all splits. The paper uses .02
            (most biased) to .05 in steps of .005.
        gray: Show every image in gray, by the lightness of its pixels, in training and test: the
            paper's baseline Gray.
    """

    name: ClassVar[str] = "colored-mnist-lnl"
    summary: ClassVar[str] = "MNIST digits in flat colors around a mean color (LNL)"
    splits: ClassVar[tuple[str, ...]] = ("train", "test", *(f"{SINGLE}{n}" for n in CLASSES))
    network: ClassVar[str] = "lnl-convnet"
    version: ClassVar[int] = 2

    sigma2: NonNegative = 0.02
    gray: bool = False

    def published(self, split: str) -> dict[str, int]:
        """Sizes of the splits."""
        return {"images": 60_000 if split == "train" else 10_000}

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Color one split."""
        digits, targets = self.original("mnist", "train" if split == "train" else "t10k", root)
        biases = _means(split, targets, generator_for(seed, self.name, split, "mean"))
        drawn = normal_between(
            colors(LNL)[biases], 1, 255, deviation=255 * math.sqrt(self.sigma2),
            generator=generator_for(seed, self.name, split, "color"),
        )  # fmt: skip
        color = drawn.floor()
        if self.gray:  # the color of every pixel, so its lightness is that of the color
            lightness = (color.long() * torch.tensor(LUMA)).sum(1, keepdim=True)
            color = ((lightness + 500) // 1000).expand(-1, 3)
        return self.assembled(
            split,
            color_flat(digits, color),
            targets,
            biases,
            bias="color",
            values=tuple(LNL),
            mean=(0.4914, 0.4822, 0.4465),  # CIFAR-10's, as in the authors' code
            std=(0.2023, 0.1994, 0.2010),
        )


def _means(split: str, targets: Tensor, generator: torch.Generator) -> Tensor:
    """The number of the mean color of each image, (n,)."""
    if split == "train":
        return targets.clone()
    if split == "test":
        return biased_values(targets, values=len(LNL), rho=1 / len(LNL), generator=generator)
    return torch.full_like(targets, int(split.removeprefix(SINGLE)))
