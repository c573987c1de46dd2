"""Colored MNIST of LNL (CVPR 2019, section 4.1): colors scatter around the mean of the class."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from crossbias.data.assignment import biased_values, normal, normal_in_unit
from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.coloring import PGD, color_foreground, colors
from crossbias.data.generated.digit_source import CLASSES, DigitSource
from crossbias.parameters import NonNegative
from crossbias.seeds import generator_for

SINGLE = "test-color-"


@dataclass(kw_only=True)
class LNLColoredMNIST(DigitSource):
    """MNIST digits in colors drawn from a normal distribution around a mean color.

    The bias is the number of the mean color. In ``train``, all 60,000 training digits, it is that
    of the digit's class. In ``test`` every class has each of the ten equally often, up to one. In
    ``test-color-0`` to ``test-color-9``, the test sets of the paper's Figure 5, all digits have
    the same mean color. The color of an image is multiplied by the gray level.

    Args:
        sigma2: Variance of each channel, for values in [0, 1], in all splits. The paper uses .02
            (most biased) to .05 in steps of .005.
        outside: What happens to a channel outside [0, 1]: ``redraw`` draws it again until it is
            inside, ``cut`` clips it. The paper does not say which. With ``redraw``, plain training
            has about the accuracies of the paper.
    """

    name: ClassVar[str] = "colored-mnist-lnl"
    summary: ClassVar[str] = "MNIST digits in colors around a mean color (LNL)"
    splits: ClassVar[tuple[str, ...]] = (
        "train",
        "test",
        *(f"{SINGLE}{digit}" for digit in CLASSES),
    )
    network: ClassVar[str] = "lnl-convnet"

    sigma2: NonNegative = 0.02
    outside: Literal["redraw", "cut"] = "redraw"

    def published(self, split: str) -> dict[str, int]:
        """Sizes of the splits."""
        return {"images": 60_000 if split == "train" else 10_000}

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Color one split."""
        digits, targets = self.original("mnist", "train" if split == "train" else "t10k", root)
        biases = _means(split, targets, generator_for(seed, self.name, split, "mean"))
        generator = generator_for(seed, self.name, split, "color")
        return self.assembled(
            split,
            color_foreground(digits, self._shades(colors(PGD)[biases] / 255.0, generator)),
            targets,
            biases,
            bias="color",
            values=tuple(PGD),
            mean=(0.4914, 0.4822, 0.4465),  # CIFAR-10's, as in the authors' code
            std=(0.2023, 0.1994, 0.2010),
        )

    def _shades(self, means: Tensor, generator: torch.Generator) -> Tensor:
        """A color for each image, drawn around its mean color, (n, 3)."""
        deviation = math.sqrt(self.sigma2)
        if self.outside == "redraw":
            return normal_in_unit(means, deviation=deviation, generator=generator)
        return (means + normal(*means.shape, generator=generator) * deviation).clamp(0, 1)


def _means(split: str, targets: Tensor, generator: torch.Generator) -> Tensor:
    """The number of the mean color of each image, (n,)."""
    if split == "train":
        return targets.clone()
    if split == "test":
        return biased_values(targets, values=len(PGD), rho=1 / len(PGD), generator=generator)
    return torch.full_like(targets, int(split.removeprefix(SINGLE)))
