"""What the data sets made of handwritten digits have in common: originals, splits, labels."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.originals import Collection, Original, Part, load_original
from crossbias.data.source import Source, once

CLASSES = tuple(str(digit) for digit in range(10))

AUGMENT = ("random-resized-crop(0.9,1.1)", "jitter(hue=0.05,saturation=0.05)", "rotate(10)")
"""Augmentations of PGD for every method, plain training included (appendix A.1 and C)."""


class DigitSource(Source):
    """A data set made of MNIST's digits, in which digit k is aligned with value k of the bias."""

    @once
    def original(self, collection: Collection, part: Part, root: Path | None) -> Original:
        """One part of a collection; its files are read and hashed once."""
        return load_original(collection, part, root=root)

    def pgd_split(self, collection: Collection, split: str, root: Path | None) -> Original:
        """The originals of a split as PGD cuts them.

        The first 90% of the training part are ``train`` and the last 10% ``validation``. Every
        other split is the test part.
        """
        if split not in ("train", "validation"):
            return self.original(collection, "t10k", root)
        images, labels = self.original(collection, "train", root)
        first = len(labels) * 9 // 10
        rows = slice(first) if split == "train" else slice(first, None)
        return Original(images[rows], labels[rows])

    def assembled(
        self,
        split: str,
        images: Tensor,
        targets: Tensor,
        biases: Tensor,
        *,
        bias: str,
        values: Sequence[str],
        augment: tuple[str, ...] = (),
        mean: tuple[float, ...] = (0.0,),
        std: tuple[float, ...] = (1.0,),
    ) -> BiasedDataset:
        """Images, digits and bias values as one data set."""
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
            augment=augment,
            mean=mean,
            std=std,
        )


def rho_of(split: str, rho: float) -> float:
    """The fraction of each class that is aligned in a split of PGD's data sets."""
    return {"test": 1 / len(CLASSES), "test-majority": 1.0, "test-minority": 0.0}.get(split, rho)


def pgd_counts(split: str) -> dict[str, int]:
    """Sizes of the splits of PGD's data sets."""
    return {"images": {"train": 54_000, "validation": 6_000}.get(split, 10_000)}
