"""Dogs and cats; the bias is how bright the animal is."""

import re
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor

from crossbias.data.published.image_source import ImageSource, Listing, lines_of
from crossbias.data.published.pickled import read_dictionary
from crossbias.data.source import once
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN

ANIMALS: Final = ("cat", "dog")
SHADES: Final = ("dark", "bright")
SIZES: Final = {
    ("cat", "bright"): 3086, ("dog", "bright"): 5299, ("cat", "dark"): 4748, ("dog", "dark"): 3652,
}  # fmt: skip
"""Number of images in the lists that the authors of LNL distribute."""

_NAMED: Final = re.compile(r"(?:.*/)?((?:cat|dog)\.[0-9]{1,9}\.jpg)")
_NUMBERED: Final = re.compile(r"(?:.*/)?([1-9][0-9]{0,8})\.jpg")


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
        """Animals are read from file names, shades and the labels of ``test`` from LNL's files."""
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
        lines = enumerate(map(str.strip, lines_of(self.needed(path))), 1)
        return [_named(line, f"{path} line {number}") for number, line in lines if line]

    def _test(self, folder: Path) -> Listing:
        """The images that LNL's oracle has labeled, in the order of their numbers."""
        path = self.needed(folder / "test_result.npy")
        rows = sorted(_labeled(entry, path) for entry in read_dictionary(path).items())
        images = folder / "test1"
        images = images if images.is_dir() else self.needed(folder / "test")
        return Listing(
            [images / f"{number}.jpg" for number, _ in rows],
            [label for _, label in rows],
            {"shade": [UNKNOWN] * len(rows)},
        )


def _named(line: str, where: str) -> str:
    """The file name in a line, which may name folders before it."""
    found = _NAMED.fullmatch(line)
    if found is None:
        raise CrossbiasError(
            f"{where} is {reprlib.repr(line)}; it must be a file name such as dog.12.jpg: get the "
            f"list from the repository of LNL"
        )
    return found[1]


def _labeled(entry: tuple[Any, Any], path: Path) -> tuple[int, int]:
    """The number of an image and its label, from an entry such as ``test1/3687.jpg``: 1."""
    match entry:
        case (str(name), 0 | 1 as label) if found := _NUMBERED.fullmatch(name):
            return int(found[1]), int(label)
    raise CrossbiasError(
        f"{path} has the entry {reprlib.repr(entry)}; it must lead from the name of an image, as "
        f"test1/1.jpg, to 0 or 1: get the file from the repository of LNL"
    )
