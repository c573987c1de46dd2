"""Image data sets on disk: a listing of files and labels first, the pixels afterwards."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.decoding import IMAGENET_MEAN, IMAGENET_STD, Fit, read_images
from crossbias.data.source import ROOT_VARIABLE, Source, data_root, once
from crossbias.errors import CrossbiasError

CIFAR_MEAN: Final = (0.4914, 0.4822, 0.4465)
CIFAR_STD: Final = (0.2023, 0.1994, 0.2010)

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"})


@dataclass(frozen=True)
class Listing:
    """The files of one split and what is known of each, before any image is read.

    Args:
        files: One image each.
        targets: Class numbers, as many.
        attributes: For each attribute, value numbers, as many; ``UNKNOWN`` where not known.
    """

    files: Sequence[Path]
    targets: Sequence[int]
    attributes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def subset(self, rows: Iterable[int]) -> "Listing":
        """The rows at the given positions, in that order."""
        rows = list(rows)
        return Listing(
            [self.files[row] for row in rows],
            [self.targets[row] for row in rows],
            {name: [column[row] for row in rows] for name, column in self.attributes.items()},
        )


class ImageSource(Source):
    """A published data set of image files.

    A subclass lists the files of a split; decoding, resizing and caching are the same for all.
    """

    folder: ClassVar[str]  # in the data root
    home: ClassVar[str]  # who publishes it, for the message when it is absent
    fit: ClassVar[Fit] = Fit(224, "squash")
    crop: ClassVar[int] = 0
    augment: ClassVar[tuple[str, ...]] = ("flip",)
    mean: ClassVar[tuple[float, ...]] = IMAGENET_MEAN
    std: ClassVar[tuple[float, ...]] = IMAGENET_STD
    network: ClassVar[str] = "resnet18"

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """For each attribute, the names of its values."""
        return {}

    @property
    def bias_attribute(self) -> str | None:
        """The attribute that is the bias."""
        return next(iter(self.values), None)

    @property
    def alignments(self) -> dict[str, Tensor]:
        """For each attribute, which value goes along with which class, where it is published."""
        return {}

    @abstractmethod
    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """The files of one split; ``root`` is the folder of all data."""

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Read one split, from the cache of decoded images where it is there."""
        listing = self.listed(split, root=root, seed=seed)
        inputs, digest = read_images(listing.files, self.fit, progress=self.progress)
        return self.assembled(split, listing, inputs, digest)

    @once
    def listed(self, split: str, *, root: Path | None, seed: int) -> Listing:
        """The listing of one split, which must not be empty."""
        if root is None:
            raise CrossbiasError(
                f"the files of {self.name} are needed: pass root= (--root on the command line), "
                f"or set {ROOT_VARIABLE}, to the folder that contains {self.folder}/; "
                f"they come from {self.home}"
            )
        listing = self.listing(split, root=root, seed=seed)
        if not listing.files:
            raise CrossbiasError(f"{root / self.folder} has no images of split {split!r}")
        return listing

    def assembled(self, split: str, listing: Listing, inputs: Tensor, digest: str) -> BiasedDataset:
        """Pixels and labels as one data set."""
        return BiasedDataset(
            inputs=inputs,
            targets=torch.tensor(listing.targets, dtype=torch.int64),
            attributes={
                name: torch.tensor(column, dtype=torch.int64)
                for name, column in listing.attributes.items()
            },
            bias=self.bias_attribute,
            name=self.name,
            split=split,
            classes=self.classes,
            values=self.values,
            alignments=self.alignments,
            crop=self.crop,
            augment=self.augment,
            mean=self.mean,
            std=self.std,
            digest=digest,
        )

    def files(
        self, split: str, *, root: Path | str | None = None, seed: int = 0
    ) -> Sequence[Path] | None:
        """The image file behind each sample of a split."""
        return self.listed(split, root=data_root(root), seed=seed).files

    def frames(self, file: Path) -> list[Path]:
        """The image files behind one listed file: itself, unless that is a clip."""
        return [file]

    def needed(self, path: Path) -> Path:
        """The path, if there is such a file or folder; else an error that says what to do."""
        if not path.exists():
            raise CrossbiasError(
                f"{self.name} needs {path}, which is not there; get the data from {self.home} "
                f"and lay it out as docs/data/{self.name}.md says"
            )
        return path


def images_in(folder: Path, pattern: str = "*") -> list[Path]:
    """The image files that match, in an order that is the same everywhere."""
    found = (path for path in folder.glob(pattern) if path.suffix.lower() in SUFFIXES)
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def on_the_diagonal(classes: int) -> Tensor:
    """The alignment table of an attribute whose value k goes along with class k."""
    return torch.eye(classes, dtype=torch.bool)


def numbers_in_name(path: Path, *, source: str, limits: tuple[int, int]) -> tuple[int, int]:
    """Target and bias from a name that ends in ``_TARGET_BIAS``."""
    parts = path.stem.split("_")[-2:]
    if len(parts) == 2 and all(part.isdecimal() for part in parts):
        target, bias = int(parts[0]), int(parts[1])
        if target < limits[0] and bias < limits[1]:
            return target, bias
    raise CrossbiasError(
        f"{source}: the name of {path} must end in _TARGET_BIAS with numbers below "
        f"{limits[0]} and {limits[1]}"
    )
