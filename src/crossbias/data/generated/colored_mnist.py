"""Colored MNIST of PGD (ICLR 2022 submission, appendix B.1): the digit's color is the bias."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from crossbias.data.assignment import normal
from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.coloring import LFF, PGD, color_foreground, colors
from crossbias.data.generated.digit_source import AUGMENT, PGDSource
from crossbias.parameters import Fraction, NonNegative
from crossbias.seeds import generator_for
from crossbias.types import UNKNOWN

RANDOM = "test-random-color"


@dataclass(kw_only=True)
class ColoredMNIST(PGDSource):
    """MNIST digits in ten colors, with a little noise on the color of each image.

    Exactly floor(n * rho + 1/2) of the n images of a class have the color of that class. The
    others are spread over the other nine colors; the counts differ by at most one. ``train`` and
    ``validation`` are the first 54,000 and the last 6,000 training digits of MNIST, both with
    ``rho``. Every test split has all 10,000 test digits: ``test`` is unbiased (a rho of .1), all
    of ``test-majority`` is aligned, all of ``test-minority`` is conflicting, and the colors of
    ``test-random-color`` are drawn uniformly (Table 12), so its bias is unknown.

    Args:
        rho: The paper's bias ratio: .995, .99 or .95; one minus the conflict ratio of its code.
        difficulty: Strength of the Gaussian noise on colors in [0, 1], the paper's alpha: .0001
            or .0005.
        variant: What the difficulty is: the variance of the noise (``paper``), or its standard
            deviation as in the authors' code (``released``), which a byte hardly shows.
        palette: The colors of ``pgd``, or of ``lff`` (NeurIPS 2020). With ``lff`` a noisy color is
            cut to [0, 1] before it is multiplied by the gray level, as in LfF's code. LfF's
            severities 1 to 5 are a difficulty of .05, .02, .01, .005 and .002 with ``released``.
    """

    name = "colored-mnist"
    summary = "colored MNIST digits (PGD); LfF's colors on demand"
    splits = (*PGDSource.splits, RANDOM)

    rho: Fraction = 0.99
    difficulty: NonNegative = 0.0001
    variant: Literal["paper", "released"] = "released"
    palette: Literal["pgd", "lff"] = "pgd"

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Color one split."""
        digits, targets = self.originals("mnist", split, root)
        generator = generator_for(seed, self.name, split, "color")
        palette = PGD if self.palette == "pgd" else LFF
        if split == RANDOM:
            biases = torch.full_like(targets, UNKNOWN)
            shades = torch.rand(len(targets), 3, dtype=torch.float64, generator=generator)
        else:
            biases = self.biases(split, targets, generator)
            noise = normal(len(targets), 3, generator=generator_for(seed, self.name, split))
            shades = self._shades(colors(palette)[biases] / 255.0, noise)
        images = color_foreground(digits, shades)
        return self.assembled(
            split, images, targets, biases, bias="color", values=tuple(palette), augment=AUGMENT
        )  # fmt: skip

    def _shades(self, own: Tensor, noise: Tensor) -> Tensor:
        """The noisy colors of the images, (n, 3), from their colors and standard normal noise."""
        released = self.variant == "released"
        noisy = own + noise * (self.difficulty if released else math.sqrt(self.difficulty))
        return noisy if self.palette == "pgd" else noisy.clamp(0, 1)
