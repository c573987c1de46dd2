"""Toy-2d: points in the plane with three classes; the first coordinate is the bias."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Generator, Tensor

from crossbias.data.assignment import biased_values, shuffled
from crossbias.data.dataset import BiasedDataset
from crossbias.data.source import Source
from crossbias.parameters import Count, Positive
from crossbias.seeds import generator_for

CLASSES: Final = ("red", "yellow", "green")

_GRID: Final = 2**12  # coordinates are multiples of 1 / _GRID


@dataclass(kw_only=True)
class Toy2d(Source):
    """The toy problem of ReBias (Bahng et al., ICML 2020, section 3.2): X = (B, S), three classes.

    The signal S of class k is around k - 1. In the biased splits the bias B is around k - 1 as
    well, which gives three round clouds on the diagonal of the plane. Both coordinates predict the
    class equally well there, so nothing in ``train`` says which of the two is meant. In ``test``
    B is around each of the three places equally often in every class.

    The authors' generator is not public. A classifier whose boundaries lie across the diagonal
    has the widest margin on the biased data. It is right on 5 of the 9 unbiased clouds, which is
    the 55% that the paper reports for a plain network.

    Args:
        size: Number of points in ``train``.
        test_size: Number of points in each other split.
        noise: Standard deviation of both coordinates. With the default, the signal alone can be
            right on 99.2% of the points.
    """

    name = "toy-2d"
    summary = "points (bias, signal) in the plane, perfectly biased; no download"
    splits = ("train", "validation", "test", "test-biased")
    network = "mlp"

    size: Count = 1_500
    test_size: Count = 1_800
    noise: Positive = 0.2

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Draw one split; nothing is read from ``root``."""
        order, bias, noise = (
            generator_for(seed, self.name, split, purpose) for purpose in ("order", "bias", "noise")
        )
        count, values = self.size if split == "train" else self.test_size, len(CLASSES)
        targets = shuffled(torch.arange(count) % values, order)
        rho = 1 / values if split == "test" else 1.0
        biases = biased_values(targets, values=values, rho=rho, generator=bias)
        places = torch.stack([biases, targets], 1) - 1.0  # (n, 2)
        return BiasedDataset(
            inputs=places + self.noise * _normal(count, noise),
            targets=targets,
            attributes={"bias": biases},
            bias="bias",
            name=self.name,
            split=split,
            classes=CLASSES,
            values={"bias": ("left", "middle", "right")},
            alignments={"bias": torch.eye(values, dtype=torch.bool)},
        )


def _normal(count: int, generator: Generator) -> Tensor:
    """Normal numbers, (count, 2), rounded to be the same on every platform."""
    uniform = torch.rand(count, 2, dtype=torch.float64, generator=generator)
    normal: Tensor = torch.special.ndtri(uniform.clamp(1e-6, 1 - 1e-6))
    return (normal * _GRID).round().div(_GRID).float()
