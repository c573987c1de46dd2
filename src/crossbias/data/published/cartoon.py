"""Cartoon faces: the color of the hair; the bias is the color of the face."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import torch
from torch import Tensor

from crossbias.data.assignment import shuffled
from crossbias.data.images.decoding import Fit
from crossbias.data.published.image_source import ImageSource, Listing, images_in
from crossbias.data.source import once
from crossbias.errors import CrossbiasError
from crossbias.parameters import PositiveFraction
from crossbias.seeds import generator_for

PAIRS: Final = ("0-1", "2-3", "4-5", "6-7")
"""The first eight colors of hair and of faces, merged in pairs."""

TEST, VALIDATION = 0.2, 0.1


@dataclass(kw_only=True)
class Cartoon(ImageSource):
    """Cartoon Set as PGD uses it: four hair colors as classes, four face colors as the bias.

    Colors are merged in pairs, as in the paper; images with a color beyond the first eight are
    left out. A fifth of all images is held out as ``test``; its aligned images are
    ``test-majority`` and its conflicting ones ``test-minority``. The rest is reduced to all
    aligned images and, in each class, as many conflicting ones as ``ratio`` requires. A tenth of
    these is ``validation``, the others are ``train``.

    Args:
        ratio: Fraction of the training images that conflict.
    """

    name = "cartoon"
    summary = "drawn faces: hair color against face color"
    splits = ("train", "validation", "test", "test-majority", "test-minority")
    folder = "cartoonset10k"
    home = "the Cartoon Set page of Google (cartoonset10k)"
    classes = tuple(f"hair {pair}" for pair in PAIRS)
    values: ClassVar[dict[str, tuple[str, ...]]] = {"face": tuple(f"face {pair}" for pair in PAIRS)}
    alignments: ClassVar[dict[str, Tensor]] = {"face": torch.eye(len(PAIRS), dtype=torch.bool)}
    fit = Fit(128, "squash")
    augment = ("random-resized-crop(0.9,1.1)", "jitter(hue=0.05,saturation=0.05)", "rotate(10)")
    mean = (0.5,) * 3
    std = (0.5,) * 3
    network = "simple-convnet-2"

    ratio: PositiveFraction = 0.01

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Colors are read from the table beside each image."""
        files, labels = self._everything(root / self.folder)
        rows = (labels < len(PAIRS)).all(1).nonzero().squeeze(1)
        rows = self._rows_of(split, shuffled(rows, generator_for(seed, self.name)), labels)
        everything = Listing(files, labels[:, 0].tolist(), {"face": labels[:, 1].tolist()})
        return everything.subset(sorted(rows.tolist()))

    @once
    def _everything(self, folder: Path) -> tuple[list[Path], Tensor]:
        """All images, and the hair and face color of each, (n, 2)."""
        files = images_in(self.needed(folder), "**/*.png")
        return files, torch.tensor([_colors(file) for file in files]).view(-1, 2)

    def _rows_of(self, split: str, rows: Tensor, labels: Tensor) -> Tensor:
        cut = round(TEST * len(rows))
        held_out, rest = rows[:cut], rows[cut:]
        if split.startswith("test"):
            aligned = labels[held_out, 0] == labels[held_out, 1]
            wanted = {"test-majority": aligned, "test-minority": ~aligned}
            return held_out[wanted[split]] if split in wanted else held_out
        chosen = torch.cat(
            [self._biased(rest[labels[rest, 0] == c], labels) for c in range(len(PAIRS))]
        )
        chosen = rest[torch.isin(rest, chosen)]  # in the random order again
        cut = round(VALIDATION * len(chosen))
        return chosen[:cut] if split == "validation" else chosen[cut:]

    def _biased(self, rows: Tensor, labels: Tensor) -> Tensor:
        """All aligned rows of one class, and as many conflicting ones as the ratio requires."""
        aligned = labels[rows, 0] == labels[rows, 1]
        wanted = round(float(aligned.sum()) * self.ratio / max(1 - self.ratio, 1e-9))
        conflicting = rows[~aligned]
        if wanted > len(conflicting):
            raise CrossbiasError(
                f"cartoon: ratio {self.ratio:g} needs {wanted} conflicting images of a class, but "
                f"there are {len(conflicting)}; choose a smaller ratio"
            )
        return torch.cat((rows[aligned], conflicting[:wanted]))


def _colors(image: Path) -> tuple[int, int]:
    """Merged hair and face color; a row of the table is a name, a value, a number of values."""
    path = image.with_suffix(".csv")
    try:
        with open(path, newline="") as file:
            table = {row[0]: int(row[1]) for row in csv.reader(file, skipinitialspace=True) if row}
        return table["hair_color"] // 2, table["face_color"] // 2
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise CrossbiasError(
            f"cartoon: {path} must have rows hair_color and face_color with a number ({error})"
        ) from error
