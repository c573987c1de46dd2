"""Published data sets of image files: a listing of files and labels, then the pixels."""

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

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"})


@dataclass(frozen=True)
class Listing:
    """The files and labels of one split, before any image is read."""

    files: Sequence[Path]  # one for each sample
    targets: Sequence[int]
    attributes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # UNKNOWN where unknown
    clusters: Sequence[str] | None = None  # such as the patient of each sample, if known

    @classmethod
    def of(cls, rows: Sequence[tuple[Path, int, int]], attribute: str) -> "Listing":
        """The samples given as file, target and value of the attribute."""
        values = {attribute: [value for _, _, value in rows]}
        return cls([file for file, _, _ in rows], [target for _, target, _ in rows], values)

    def subset(self, rows: Iterable[int]) -> "Listing":
        """The rows at the given positions, in that order."""
        rows = list(rows)
        return Listing(
            [self.files[row] for row in rows],
            [self.targets[row] for row in rows],
            {name: [column[row] for row in rows] for name, column in self.attributes.items()},
            None if self.clusters is None else [self.clusters[row] for row in rows],
        )

    def numbered_clusters(self) -> Tensor | None:
        """The number of the cluster of each sample, (n,); None where all are independent."""
        if self.clusters is None:
            return None
        number = {name: place for place, name in enumerate(dict.fromkeys(self.clusters))}
        return torch.tensor([number[name] for name in self.clusters])


class ImageSource(Source):
    """A published data set of image files.

    A subclass lists the files and labels of a split. Decoding, resizing and caching happen here.
    """

    folder: ClassVar[str]  # its folder in the data root
    home: ClassVar[str]  # who publishes it, for the message when files are missing
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
        """For each attribute, the names of its values; the first attribute is the bias."""
        return {}

    @property
    def alignments(self) -> dict[str, Tensor]:
        """For each attribute, which value goes along with which class, where this is published."""
        return {}

    @abstractmethod
    def listing(self, split: str, *, root: Path, seed: int) -> Listing:
        """The files and labels of one split; ``root`` is the folder of all data."""

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Read one split, from the cache if its images have been decoded before."""
        listing = self.listed(split, root=root, seed=seed)
        inputs, digest = read_images(listing.files, self.fit_of(split), progress=self.progress)
        return self.assembled(split, listing, inputs, digest)

    @once
    def listed(self, split: str, *, root: Path | None, seed: int) -> Listing:
        """The listing of one split; an empty one is an error."""
        if root is None:
            raise CrossbiasError(
                f"the files of {self.name} are needed: pass root= (--root on the command line), "
                f"or set {ROOT_VARIABLE}, to the folder that contains {self.folder}/; "
                f"get them from {self.home}"
            )
        listing = self.listing(split, root=root, seed=seed)
        if not listing.files:
            folder = self.folder_of(split, root=root)
            raise CrossbiasError(f"{folder} has no images of split {split!r}")
        return listing

    def folder_of(self, split: str, *, root: Path) -> Path:
        """The folder that has the files of one split; the same for all splits by default."""
        return root / self.folder

    def assembled(self, split: str, listing: Listing, inputs: Tensor, digest: str) -> BiasedDataset:
        """Combine pixels and labels into a data set."""
        return BiasedDataset(
            inputs=inputs,
            targets=torch.tensor(listing.targets, dtype=torch.int64),
            attributes={
                name: torch.tensor(column, dtype=torch.int64)
                for name, column in listing.attributes.items()
            },
            bias=next(iter(self.values), None),
            name=self.name,
            split=split,
            classes=self.classes,
            values=self.values,
            alignments=self.alignments,
            crop=self.crop,
            augment=self.augment,
            mean=self.mean,
            std=self.std,
            cluster=listing.numbered_clusters(),
            digest=digest,
        )

    def files(
        self, split: str, *, root: Path | str | None = None, seed: int = 0
    ) -> Sequence[Path] | None:
        """The image file of each sample of a split."""
        return self.listed(split, root=data_root(root), seed=seed).files

    def fit_of(self, split: str) -> Fit:
        """How the image files of one split become pixels; the same for all splits by default."""
        return self.fit

    def frames(self, file: Path) -> list[Path]:
        """The image files of one listed file: the file itself, or the frames of a clip."""
        return [file]

    def needed(self, path: Path) -> Path:
        """The path, if it exists; otherwise an error says where to get the data."""
        if not path.exists():
            raise CrossbiasError(
                f"{self.name} needs {path}, which does not exist; get the data from {self.home} "
                f"and arrange it as docs/data/{self.name}.md says"
            )
        return path


def images_in(folder: Path, pattern: str = "*") -> list[Path]:
    """The image files that match a pattern, in the same order on every platform.

    Hidden files are none: macOS writes one, ``._NAME.jpg``, beside each file on other disks.
    """
    found = (
        path
        for path in folder.glob(pattern)
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def lines_of(path: Path) -> list[str]:
    """The lines of a list of names."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CrossbiasError(
            f"{path} is not UTF-8 text; get the list again from its authors"
        ) from error


def numbers_in_name(path: Path, *, source: str, limits: tuple[int, int]) -> tuple[int, int]:
    """Target and bias from a file name that ends in ``_TARGET_BIAS``."""
    parts = path.stem.split("_")[-2:]
    if len(parts) == 2 and all(part.isdecimal() for part in parts):
        target, bias = int(parts[0]), int(parts[1])
        if target < limits[0] and bias < limits[1]:
            return target, bias
    raise CrossbiasError(
        f"{source}: the name of {path} must end in _TARGET_BIAS with numbers below "
        f"{limits[0]} and {limits[1]}"
    )
