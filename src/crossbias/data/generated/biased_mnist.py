"""Biased MNIST of ReBias (ICML 2020) and EnD (CVPR 2021): the background color is the bias."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch

from crossbias.data.assignment import chunked_values, shuffled
from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.coloring import REBIAS, color_background, colors
from crossbias.data.generated.digit_source import DigitSource
from crossbias.data.generated.originals import Original
from crossbias.parameters import Fraction, Interval
from crossbias.seeds import generator_for

VALIDATION = 0.3  # fraction of the training digits on which EnD validates

CONFLICTING = {0.999: 63, 0.997: 184, 0.995: 305, 0.99: 606}
"""Number of conflicting training images for each rho of the papers."""


@dataclass(kw_only=True)
class BiasedMNIST(DigitSource):
    """White MNIST digits on one of ten background colors.

    Exactly floor(n * rho) of the n images of a class have the color of that class. The rest is
    cut into chunks of ceil(rest / confusing), each in one of the other colors. The main test
    split, ``test``, is the unbiased one of the papers (a rho of .1: 996 aligned, 9,004
    conflicting). ``test-biased`` has a rho of 1 as in the authors' code, ``test-train-rho`` has
    the rho of training as in the paper, and ``test-rho0`` has conflicting images only.

    Args:
        rho: Fraction of each class that has the color of that class. The papers use .999, .997,
            .995 and .990, which leave 63, 184, 305 and 606 conflicting images of 60,000.
        confusing: Number of other colors that the conflicting images of a class have.
        validation_rho: ``rho`` of the split ``validation``; EnD uses .1.
        held_out: Fraction of the training digits that is moved from ``train`` to ``validation``.
            With 0, as published, ``train`` has all 60,000 digits and ``validation`` is that of
            EnD: 30% of the same digits, colored anew.
    """

    name = "biased-mnist"
    summary = "MNIST digits on colored backgrounds (ReBias, EnD)"
    splits = ("train", "validation", "test", "test-biased", "test-train-rho", "test-rho0")
    network = "convnet"

    rho: Fraction = 0.997
    confusing: Annotated[int, Interval(1, 9)] = 9
    validation_rho: Fraction = 0.1
    held_out: Annotated[float, Interval(0, 0.5)] = 0.0

    def published(self, split: str) -> dict[str, int]:
        """Sizes of the splits; for a rho of the papers also the number of conflicting images."""
        if split == "test":
            return {"images": 10_000, "aligned": 996, "conflicting": 9_004}
        if split.startswith("test-"):
            return {"images": 10_000}
        if split != "train" or self.held_out:
            return {}
        known = self.rho in CONFLICTING
        return {"images": 60_000} | ({"conflicting": CONFLICTING[self.rho]} if known else {})

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Color one split."""
        digits, targets = self._originals(split, root, seed)
        fixed = {"validation": self.validation_rho, "test": 0.1, "test-biased": 1, "test-rho0": 0}
        biases = chunked_values(
            targets,
            values=len(REBIAS),
            rho=fixed.get(split, self.rho),
            confusing=self.confusing,
            generator=generator_for(seed, self.name, split, "color"),
        )
        return self.assembled(
            split,
            color_background(digits, colors(REBIAS)[biases]),
            targets,
            biases,
            bias="background",
            values=tuple(REBIAS),
            mean=(0.5,) * 3,
            std=(0.5,) * 3,
        )

    def _originals(self, split: str, root: Path | None, seed: int) -> Original:
        """The digits of a split, in the order of the files."""
        if split.startswith("test"):
            return self.original("mnist", "t10k", root)
        images, labels = self.original("mnist", "train", root)
        if split == "train" and not self.held_out:
            return Original(images, labels)
        order = shuffled(torch.arange(len(labels)), generator_for(seed, self.name, "validation"))
        chosen = round(len(labels) * (self.held_out or VALIDATION))
        rows = order[:chosen] if split == "validation" else order[chosen:]
        rows = rows.sort().values
        return Original(images[rows], labels[rows])
