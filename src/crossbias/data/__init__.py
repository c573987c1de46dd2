"""Data sets with a bias: load one by name, read your own, or plant a bias into any images."""

import shlex
from pathlib import Path
from typing import Any

from crossbias.data.dataset import BiasedDataset
from crossbias.data.generated.biased_mnist import BiasedMNIST
from crossbias.data.generated.colored_mnist import ColoredMNIST
from crossbias.data.generated.glyphs import Glyphs
from crossbias.data.generated.lnl_colored_mnist import LNLColoredMNIST
from crossbias.data.generated.toy import Toy2d
from crossbias.data.generated.watermarked_mnist import WatermarkedMNIST
from crossbias.data.noise import with_label_noise
from crossbias.data.own.feature_folder import FeatureFolder
from crossbias.data.own.from_torch import from_torch
from crossbias.data.own.hugging_face import HuggingFace
from crossbias.data.own.image_folder import Folder
from crossbias.data.own.packing import pack
from crossbias.data.own.web_dataset import WebDataset
from crossbias.data.planting.planted_cues import plant_values
from crossbias.data.planting.planting import plant, replant
from crossbias.data.published.bar import BAR
from crossbias.data.published.bffhq import BFFHQ
from crossbias.data.published.cartoon import Cartoon
from crossbias.data.published.celeba import CelebA
from crossbias.data.published.covid import CovidCXR
from crossbias.data.published.dogs_cats import DogsCats
from crossbias.data.published.imagenet import ImageNet9
from crossbias.data.published.imdb_face import IMDBFace
from crossbias.data.published.kinetics import Kinetics10
from crossbias.data.published.waterbirds import Waterbirds
from crossbias.data.published.waterbirds_making import make_waterbirds
from crossbias.data.source import Source
from crossbias.errors import CrossbiasError
from crossbias.parameters import imported, unknown, validated

_SOURCES = (
    Glyphs,
    BiasedMNIST,
    LNLColoredMNIST,
    ColoredMNIST,
    WatermarkedMNIST,
    Toy2d,
    BAR,
    BFFHQ,
    CelebA,
    Waterbirds,
    ImageNet9,
    Kinetics10,
    Cartoon,
    DogsCats,
    IMDBFace,
    CovidCXR,
    Folder,
    HuggingFace,
    WebDataset,
    FeatureFolder,
)
DATASETS: dict[str, type[Source]] = {kind.name: kind for kind in _SOURCES}
"""Data sources by name. A source of your own is named by its dotted path instead."""

__all__ = [
    "BAR",
    "BFFHQ",
    "DATASETS",
    "BiasedDataset",
    "BiasedMNIST",
    "Cartoon",
    "CelebA",
    "ColoredMNIST",
    "CovidCXR",
    "DogsCats",
    "FeatureFolder",
    "Folder",
    "Glyphs",
    "HuggingFace",
    "IMDBFace",
    "ImageNet9",
    "Kinetics10",
    "LNLColoredMNIST",
    "Source",
    "Toy2d",
    "Waterbirds",
    "WatermarkedMNIST",
    "WebDataset",
    "create_source",
    "find_source",
    "from_torch",
    "load",
    "make_waterbirds",
    "pack",
    "plant",
    "plant_values",
    "replant",
    "with_label_noise",
]

# These names continue with the path of the data: folder:PATH.
_WITH_PATH = ("folder", "hf", "webdataset", "features")


def find_source(name: str) -> type[Source]:
    """The class of a data source, by its name (``bar``, ``folder:PATH``) or by dotted path."""
    name = _without_path(name)[0]
    if name and name not in DATASETS and Path(name).is_dir():
        raise CrossbiasError(
            f"there is no data set {name!r}, but there is a folder of that name; for the images in "
            f"it write --data {shlex.quote(f'folder:{name}')}"
        )
    if ":" not in name and name not in DATASETS:
        own = "; your own is named package.module:Class"
        raise unknown("there is no data set", name, DATASETS, more=own)
    kind = DATASETS[name] if name in DATASETS else imported(name)
    if not (isinstance(kind, type) and issubclass(kind, Source)):
        raise CrossbiasError(f"{name!r} is not a subclass of crossbias.data.Source")
    return kind


def create_source(name: str, **options: Any) -> Source:
    """Make a data source by name, after checking its options."""
    kind = find_source(name)
    given = _without_path(name)[1] | options
    return kind(**validated(kind, given, f"data set {name!r}"))


def _without_path(name: str) -> tuple[str, dict[str, str]]:
    """Split ``folder:PATH`` into the name and the option ``path``; other names have no path."""
    first, _, path = name.partition(":")
    return (first, {"path": path}) if first in _WITH_PATH else (name, {})


def load(
    name: str,
    split: str,
    *,
    root: Path | str | None = None,
    seed: int = 0,
    label_noise: float = 0.0,
    stylized: Path | str | None = None,
    **options: Any,
) -> BiasedDataset:
    """Load one split of a named data set.

    ``crossbias.load`` does the same, except that it chooses the size of your own images.

    Args:
        name: A key of ``DATASETS``, ``folder:PATH``, ``hf:PATH``, ``webdataset:PATH``, or a
            dotted path.
        split: Name of the split, such as ``train``, ``validation`` or ``test``.
        root: Folder of all data. The default is the folder that the environment variable
            ``CROSSBIAS_DATA`` names.
        seed: Seed of everything random in how the data is made.
        label_noise: Fraction of the labels of ``train`` that are made wrong; other splits keep
            their labels.
        stylized: Folder with a re-textured copy of the training images, which ``crossbias data
            stylize`` made. ``train`` then has every image and its copy, with the same labels.
        **options: Options of the data set, such as ``rho``.

    >>> data = load("glyphs", "train", size=100, rho=0.9)
    >>> len(data), data.bias, data.inputs.shape
    (100, 'background', torch.Size([100, 3, 28, 28]))
    """
    source = create_source(name, **options)
    return source.load(split, root=root, seed=seed, label_noise=label_noise, stylized=stylized)
