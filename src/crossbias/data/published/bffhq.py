"""Biased FFHQ: the age of a face; the bias is gender."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor

from crossbias.data.images.decoding import CIFAR_MEAN, CIFAR_STD
from crossbias.data.published.image_source import ImageSource, Listing, images_in, numbers_in_name


@dataclass(kw_only=True)
class BFFHQ(ImageSource):
    """Biased FFHQ (DisEnt, BiasEnsemble, IE): the target is age (10-29 or 40-59).

    Most of the young are women and most of the old are men. ``test`` has only the conflicting
    images, as in all papers; ``test-all`` has all test images.

    Args:
        severity: Percentage of conflicting training images; ``1pct`` is the same as ``1``.
    """

    name = "bffhq"
    summary = "young women and old men; tested on the others"
    splits = ("train", "validation", "test", "test-all")
    folder = "bffhq"
    home = "the repository of BiasEnsemble (all severities) or DisEnt (0.5)"
    classes = ("young", "old")
    values: ClassVar[dict[str, tuple[str, ...]]] = {"gender": ("female", "male")}
    alignments: ClassVar[dict[str, Tensor]] = {"gender": torch.eye(2, dtype=torch.bool)}
    augment = ("crop(4)", "flip")
    mean = CIFAR_MEAN
    std = CIFAR_STD

    severity: Literal["0.5", "1", "2", "5", "0.5pct", "1pct", "2pct", "5pct"] = "0.5"

    def __post_init__(self) -> None:
        self.severity = cast(Literal["0.5", "1", "2", "5"], self.severity.removesuffix("pct"))

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Labels are the last two numbers of the file names."""
        folder = root / self.folder
        if split == "train":
            severity = self.needed(folder / f"{self.severity}pct")
            aligned = images_in(self.needed(severity / "align"), "*/*")
            files = aligned + images_in(self.needed(severity / "conflict"), "*/*")
        else:
            name = "valid" if split == "validation" else "test"
            files = images_in(self.needed(folder / name))
        rows = [(file, *numbers_in_name(file, source=self.name, limits=(2, 2))) for file in files]
        conflicting = [row for row in rows if row[1] != row[2]]
        return Listing.of(conflicting if split == "test" else rows, "gender")
