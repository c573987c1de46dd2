"""CelebA: an attribute of a face, such as blond hair; the bias is gender."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

import torch
from torch import Tensor

from crossbias.data.assignment import shuffled
from crossbias.data.images.files_inside import files_inside
from crossbias.data.published.image_source import ImageSource, Listing, lines_of
from crossbias.data.source import once
from crossbias.errors import CrossbiasError
from crossbias.seeds import generator_for

BIAS: Final = "Male"
PARTS: Final = "list_eval_partition.txt"
ATTRIBUTES: Final = "list_attr_celeba.txt"
PARTITION: Final = {"train": 0, "test": 1, "test-official": 2}
SIZES: Final = {"train": 162_770, "test": 19_867, "test-official": 19_962}


@dataclass(kw_only=True)
class CelebA(ImageSource):
    """CelebA with two of its forty attributes: one is the target, ``Male`` is the bias.

    ``test`` is the official validation part, on which LfF and EnD test. LfF averages the
    accuracies of its four groups (``unbiased``). EnD reduces every group to the size of the
    smallest, which is ``test-balanced``. ``test-conflicting`` and ``test-balanced-conflicting``
    have the conflicting groups of each. ``test-official`` is the official test part.

    Args:
        target: The attribute to predict; women have it more often than men.
    """

    name = "celeba"
    summary = "faces: blond hair or heavy makeup against gender"
    splits = (
        "train", "test", "test-conflicting", "test-balanced", "test-balanced-conflicting",
        "test-official",
    )  # fmt: skip
    folder = "celeba"
    home = "the CelebA project page of the Multimedia Laboratory, Hong Kong"
    values: ClassVar[dict[str, tuple[str, ...]]] = {BIAS: ("female", "male")}
    alignments: ClassVar[dict[str, Tensor]] = {BIAS: torch.tensor([[False, True], [True, False]])}

    target: Literal["Blond_Hair", "Heavy_Makeup"] = "Blond_Hair"

    @property
    def classes(self) -> tuple[str, ...]:
        """Without and with the target attribute."""
        return (f"not {self.target}", self.target)

    def published(self, split: str) -> dict[str, int]:
        """Sizes of the official parts, and the group sizes of one that papers state."""
        counts = {"images": SIZES[split]} if split in SIZES else {}
        if (split, self.target) == ("test", "Heavy_Makeup"):
            names = [
                f"{group} / {gender}" for group in self.classes for gender in ("female", "male")
            ]
            counts |= dict(zip(names, (3667, 8449, 7742, 9), strict=True))
        return counts

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Labels and parts are read from the two official lists."""
        part = self._part(root / self.folder, PARTITION.get(split, PARTITION["test"]))
        return self._of_split(part, split, seed)

    @once
    def _part(self, folder: Path, part: int) -> Listing:
        """One of the three official parts."""
        parts, columns = self._lists(folder)
        files = [name for name, its_part in parts if its_part == part]
        if missing := set(files) - columns.keys():
            raise CrossbiasError(
                f"{folder / ATTRIBUTES} has no row for {len(missing)} images of {PARTS}, such as "
                f"{min(missing)}; get both lists from the same release"
            )
        images = self.needed(folder / "img_align_celeba")
        return Listing(
            files_inside(images, files, [f"{PARTS}: {file}" for file in files], present=False),
            [columns[file][0] for file in files],
            {BIAS: [columns[file][1] for file in files]},
        )

    @once
    def _lists(self, folder: Path) -> tuple[list[tuple[str, int]], dict[str, tuple[int, int]]]:
        """The part of every image, and its target and bias."""
        parts = _parts(self.needed(folder / PARTS))
        return parts, _columns(self.needed(folder / ATTRIBUTES), (self.target, BIAS))

    def _of_split(self, listing: Listing, split: str, seed: int) -> Listing:
        targets, biases = torch.tensor(listing.targets), torch.tensor(listing.attributes[BIAS])
        if "balanced" in split:
            rows = _as_many_of_each(2 * targets + biases, seed)
            listing, targets, biases = listing.subset(rows), targets[rows], biases[rows]
        if split.endswith("conflicting"):  # men with the target attribute, women without
            listing = listing.subset((targets == biases).nonzero().squeeze(1).tolist())
        return listing


def _as_many_of_each(groups: Tensor, seed: int) -> list[int]:
    """Rows of a random choice in which every group is as large as the smallest one."""
    generator = generator_for(seed, "celeba", "balanced")
    present = sorted(set(groups.tolist()))
    smallest = min(int((groups == group).sum()) for group in present)
    chosen = [
        shuffled((groups == group).nonzero().squeeze(1), generator)[:smallest] for group in present
    ]
    return sorted(torch.cat(chosen).tolist())


def _parts(path: Path) -> list[tuple[str, int]]:
    """The name of every image and the number of its part."""
    found = []
    for number, line in enumerate(lines_of(path), 1):
        match line.split():
            case [name, "0" | "1" | "2" as part]:
                found.append((name, int(part)))
            case [_, *_]:
                raise CrossbiasError(
                    f"{path} line {number} is {line!r}; it must be a file name and 0, 1 or 2"
                )
    return found


def _columns(path: Path, names: tuple[str, str]) -> dict[str, tuple[int, int]]:
    """For each file and attribute, 1 if it has the attribute, else 0; the list has 1 and -1."""
    _, header, *lines = [*lines_of(path), "", ""]
    known = header.split()
    if absent := [name for name in names if name not in known]:
        raise CrossbiasError(f"{path} has no column {absent[0]!r} in its second line")
    first, second = (known.index(name) + 1 for name in names)
    columns = {}
    for number, row in enumerate((line.split() for line in lines), 3):
        if row and (len(row) != len(known) + 1 or not {row[first], row[second]} <= {"1", "-1"}):
            raise CrossbiasError(
                f"{path} line {number} must have a file name and {len(known)} times 1 or -1"
            )
        if row:
            columns[row[0]] = (int(row[first] == "1"), int(row[second] == "1"))
    return columns
