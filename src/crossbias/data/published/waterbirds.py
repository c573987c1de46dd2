"""Waterbirds: waterbirds and landbirds; the bias is the background, water or land."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

import torch
from torch import Tensor

from crossbias.data.images.decoding import Fit
from crossbias.data.images.files_inside import files_inside
from crossbias.data.own.table_files import read_table
from crossbias.data.published.image_source import ImageSource, Listing
from crossbias.data.source import once

WATER_KINDS: Final = frozenset({
    "albatross", "auklet", "cormorant", "frigatebird", "fulmar", "gull", "jaeger", "kittiwake",
    "pelican", "puffin", "tern", "gadwall", "grebe", "mallard", "merganser", "guillemot", "loon",
})  # fmt: skip
"""The last word in the names of the species of CUB-200-2011 that are waterbirds."""

ARCHIVE: Final = "waterbird_complete95_forest2water2"  # the folder in the released archive
PARTS: Final = {"train": "0", "validation": "1", "test": "2"}
RELEASED: Final = {"train": (3498, 184, 56, 1057), "test": (2255, 2255, 642, 642)}
"""Number of landbirds on land and on water, and of waterbirds on land and on water."""


@dataclass(kw_only=True)
class Waterbirds(ImageSource):
    """Waterbirds (Sagawa et al.): the ready-made release, or one made by ``make_waterbirds``.

    Args:
        species: ``released`` uses the labels of metadata.csv. In the public release these take
            three landbirds for terns (EasTERN Towhee, WesTERN Meadowlark, WesTERN Wood Pewee).
            ``exact`` derives the label from the name of the species instead, which gives the
            4600 and 1194 test images that IE states.
    """

    name = "waterbirds"
    summary = "waterbirds and landbirds before water and land"
    folder = "waterbirds"
    home = "the repository of Group DRO, or crossbias.data.make_waterbirds"
    classes = ("landbird", "waterbird")
    values: ClassVar[dict[str, tuple[str, ...]]] = {"place": ("land", "water")}
    alignments: ClassVar[dict[str, Tensor]] = {"place": torch.eye(2, dtype=torch.bool)}
    fit = Fit(256, "crop")
    crop = 224
    augment = ("random-resized-crop(0.7,1)", "flip")

    species: Literal["released", "exact"] = "released"

    def published(self, split: str) -> dict[str, int]:
        """Group sizes of the release; with exact species, the class sizes of its test split."""
        if self.species == "exact":
            return {"images": 5794, "landbird": 4600, "waterbird": 1194} if split == "test" else {}
        if split not in RELEASED:
            return {}
        groups = [f"{bird} / {place}" for bird in self.classes for place in ("land", "water")]
        counts = dict(zip(groups, RELEASED[split], strict=True))
        return {"images": sum(counts.values())} | counts

    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """Labels are read from metadata.csv."""
        everything, parts = self._everything(self.folder_of(split, root=root))
        return everything.subset(row for row, part in enumerate(parts) if part == split)

    def folder_of(self, split: str, *, root: Path) -> Path:
        """The folder of the data; that of the released archive where there is no other."""
        archive, ours = root / ARCHIVE, root / self.folder
        return archive if archive.is_dir() and not ours.is_dir() else ours

    @once
    def _everything(self, folder: Path) -> tuple[Listing, list[str]]:
        """All images, and the split of each."""
        table = read_table(self.needed(folder / "metadata.csv"))
        names = table.column("img_filename")
        titles = [f"{where}: {name}" for where, name in zip(table.where, names, strict=True)]
        if self.species == "exact":
            targets = [int(is_waterbird(Path(name).parent.name)) for name in names]
        else:
            targets = table.chosen("y", ("0", "1"))
        listing = Listing(
            files_inside(folder, names, titles, present=False),
            targets,
            {"place": table.chosen("place", ("0", "1"))},
        )
        splits = tuple(PARTS)
        return listing, [splits[part] for part in table.chosen("split", tuple(PARTS.values()))]


def is_waterbird(species: str) -> bool:
    """Whether a species of CUB-200-2011 is a waterbird, by the last word of its name.

    >>> is_waterbird("141.Artic_Tern"), is_waterbird("021.Eastern_Towhee")
    (True, False)
    """
    return species.replace(".", "_").rpartition("_")[2].lower() in WATER_KINDS
