"""What the data sets made of handwritten digits have in common: originals, splits, labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossbias.data.assignment import biased_values
from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.originals import Collection, Original, Part, load_original
from crossbias.data.source import Source, once

_PGD_SPLITS: tuple[str, ...] = ("train", "validation", "test", "test-majority", "test-minority")

CLASSES = tuple(str(digit) for digit in range(10))

AUGMENT = ("random-resized-crop(0.9,1.1)", "jitter(hue=0.05,saturation=0.05)", "rotate(10)")
"""Augmentations of PGD for every method, plain training included (appendix A.1 and C)."""


class DigitSource(Source):
    """A data set made of digits, in which digit k is aligned with value k of the bias."""

    @once
    def original(self, collection: Collection, part: Part, root: Path | None) -> Original:
        """One part of a collection; its files are read and hashed once."""
        return load_original(collection, part, root=root)

    def assembled(
        self,
        split: str,
        images: Tensor,
        targets: Tensor,
        biases: Tensor,
        *,
        bias: str,
        values: Sequence[str],
        **description: Any,
    ) -> BiasedDataset:
        """Images, digits and bias values as one data set, described by arguments of its class."""
        return BiasedDataset(
            inputs=images,
            targets=targets,
            attributes={bias: biases},
            bias=bias,
            name=self.name,
            split=split,
            classes=CLASSES,
            values={bias: tuple(values)},
            alignments={bias: torch.eye(len(CLASSES), dtype=torch.bool)},
            **description,
        )


class PGDSource(DigitSource):
    """A data set of PGD: the last 10% of the training digits are ``validation``."""

    splits = _PGD_SPLITS
    network = "simple-convnet-1"
    rho: float

    def published(self, split: str) -> dict[str, int]:
        """Sizes of the splits."""
        return {"images": {"train": 54_000, "validation": 6_000}.get(split, 10_000)}

    def originals(self, collection: Collection, split: str, root: Path | None) -> Original:
        """The originals of a split; every test split has all of the test part."""
        if split not in ("train", "validation"):
            return self.original(collection, "t10k", root)
        images, labels = self.original(collection, "train", root)
        first = len(labels) * 9 // 10
        rows = slice(first) if split == "train" else slice(first, None)
        return Original(images[rows], labels[rows])

    def biases(self, split: str, targets: Tensor, generator: torch.Generator) -> Tensor:
        """The bias value of each digit of a split, (n,)."""
        fixed = {"test": 1 / len(CLASSES), "test-majority": 1.0, "test-minority": 0.0}
        rho = fixed.get(split, self.rho)
        return biased_values(targets, values=len(CLASSES), rho=rho, generator=generator)
