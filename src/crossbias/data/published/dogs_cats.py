"""Dogs and cats; the bias is how bright the animal is."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

import numpy as np
import torch
from torch import Tensor

from crossbias.data.published.image_source import ImageSource, Listing, images_in
from crossbias.data.source import once
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN

ANIMALS: Final = ("cat", "dog")
SHADES: Final = ("dark", "bright")
SIZES: Final = {
    ("cat", "bright"): 3086, ("dog", "bright"): 5299, ("cat", "dark"): 4748, ("dog", "dark"): 3652,
}  # fmt: skip
"""Number of images in the lists that the authors of LNL distribute."""


@dataclass(kw_only=True)
class DogsCats(ImageSource):
    """Dogs and cats as LNL uses them, with its lists of bright and dark animals.

    ``test`` is Kaggle's unlabeled test part, labeled by LNL's oracle network; the brightness of
    its animals is unknown. ``test-other`` is the other training set.

    Args:
        training: ``TB1`` has dark cats and bright dogs, ``TB2`` bright cats and dark dogs.
    """

    name = "dogs-cats"
    summary = "dark cats and bright dogs, or the other way"
    splits = ("train", "test", "test-other")
    folder = "dogs-cats"
    home = "Kaggle's Dogs vs. Cats (images) and the repository of LNL (lists)"
    classes = ANIMALS
    values: ClassVar[dict[str, tuple[str, ...]]] = {"shade": SHADES}

    training: Literal["TB1", "TB2"] = "TB1"

    @property
    def alignments(self) -> dict[str, Tensor]:
        """The combinations in the training set are aligned."""
        table = torch.eye(2, dtype=torch.bool)
        return {"shade": table if self.training == "TB1" else ~table}

    def published(self, split: str) -> dict[str, int]:
        """Number of images in the lists."""
        if split == "test":
            return {"images": 12_500}
        groups = {
            f"{animal} / {shade}": SIZES[animal, shade] for animal, shade in self._groups(split)
        }
        return {"images": sum(groups.values())} | groups

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Animals are read from file names, shades from the lists, test labels from an array."""
        folder = root / self.folder
        if split == "test":
            return self._test(folder)
        rows = [
            (folder / "train" / name, ANIMALS.index(animal), SHADES.index(shade))
            for animal, shade in self._groups(split)
            for name in self._names(folder / f"list_{shade}.txt")
            if name.startswith(f"{animal}.")
        ]
        return Listing.of(rows, "shade")

    def _groups(self, split: str) -> list[tuple[str, str]]:
        straight = (self.training == "TB1") == (split == "train")
        return list(zip(ANIMALS, SHADES if straight else SHADES[::-1], strict=True))

    @once
    def _names(self, path: Path) -> list[str]:
        """The file names in a list, such as ``dog.12.jpg``, without their folders."""
        return [Path(line.strip()).name for line in self.needed(path).read_text().splitlines()]

    def _test(self, folder: Path) -> Listing:
        files = images_in(self.needed(folder / "test"))
        if strange := [file for file in files if not file.stem.isdecimal()]:
            raise CrossbiasError(f"{self.name}: the name of {strange[0]} must be a number")
        files.sort(key=lambda file: int(file.stem))
        path = self.needed(folder / "test_result.npy")
        try:
            labels = np.load(path, allow_pickle=False).astype(np.int64).ravel()
        except (OSError, ValueError, EOFError) as error:
            raise CrossbiasError(f"{path} is not an array of numbers: {error}") from error
        if len(labels) != len(files):
            raise CrossbiasError(f"{path} has {len(labels)} labels for {len(files)} test images")
        return Listing(files, labels.tolist(), {"shade": [UNKNOWN] * len(files)})
