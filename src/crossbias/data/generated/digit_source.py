"""What all data sets made of handwritten digits have in common."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.originals import Collection, Original, load_original

CLASSES = tuple(str(digit) for digit in range(10))

AUGMENT = ("random-resized-crop(0.9,1.1)", "jitter(hue=0.05,saturation=0.05)", "rotate(10)")
"""What PGD trains every method with, plain training too (appendix A.1 and C)."""


def biased_split(collection: Collection, split: str, *, root: Path | None) -> Original:
    """The originals of a split as PGD cuts them.

    The first 90 % of the training part are ``train``, the last 10 % ``validation``; every other
    split is the test part.
    """
    if split not in ("train", "validation"):
        return load_original(collection, "t10k", root=root)
    images, labels = load_original(collection, "train", root=root)
    first = len(labels) * 9 // 10
    rows = slice(first) if split == "train" else slice(first, None)
    return Original(images[rows], labels[rows])


def rho_of(split: str, rho: float) -> float:
    """How much of each class is aligned in a split of PGD's data sets."""
    return {"test": 1 / len(CLASSES), "test-majority": 1.0, "test-minority": 0.0}.get(split, rho)


def pgd_counts(split: str) -> dict[str, int]:
    """Sizes of the splits of PGD's data sets."""
    return {"images": {"train": 54_000, "validation": 6_000}.get(split, 10_000)}


def digit_set(
    images: Tensor,
    targets: Tensor,
    biases: Tensor,
    *,
    name: str,
    split: str,
    bias: str,
    values: Sequence[str],
    augment: tuple[str, ...] = (),
    mean: tuple[float, ...] = (0.0,),
    std: tuple[float, ...] = (1.0,),
) -> BiasedDataset:
    """A split of ten digits, digit k aligned with value k of the bias."""
    return BiasedDataset(
        inputs=images,
        targets=targets,
        attributes={bias: biases},
        bias=bias,
        name=name,
        split=split,
        classes=CLASSES,
        values={bias: tuple(values)},
        alignments={bias: torch.eye(len(CLASSES), dtype=torch.bool)},
        augment=augment,
        mean=mean,
        std=std,
    )
