"""Data with a bias: one contract, named sources, and batches on the device."""

from pathlib import Path
from typing import Any

from crossbias.data.biased_mnist import BiasedMNIST
from crossbias.data.colored_mnist import ColoredMNIST
from crossbias.data.cues import plant_values
from crossbias.data.dataset import BiasedDataset
from crossbias.data.folder import Folder
from crossbias.data.from_torch import from_torch
from crossbias.data.glyphs import Glyphs
from crossbias.data.hugging_face import HuggingFace
from crossbias.data.lnl_colored_mnist import LNLColoredMNIST
from crossbias.data.noise import with_label_noise
from crossbias.data.planting import plant, replant
from crossbias.data.source import Source
from crossbias.data.toy import Toy2d
from crossbias.data.watermarked_mnist import WatermarkedMNIST
from crossbias.errors import CrossbiasError
from crossbias.parameters import closest, imported, validated

DATASETS: dict[str, type[Source]] = {
    kind.name: kind
    for kind in (
        Glyphs,
        BiasedMNIST,
        LNLColoredMNIST,
        ColoredMNIST,
        WatermarkedMNIST,
        Toy2d,
        Folder,
        HuggingFace,
    )
}
"""Data sources by name; the reader's own are named by dotted path."""

__all__ = [
    "DATASETS",
    "BiasedDataset",
    "BiasedMNIST",
    "ColoredMNIST",
    "Folder",
    "Glyphs",
    "HuggingFace",
    "LNLColoredMNIST",
    "Source",
    "Toy2d",
    "WatermarkedMNIST",
    "create_source",
    "find_source",
    "from_torch",
    "load",
    "plant",
    "plant_values",
    "replant",
    "with_label_noise",
]

_WITH_PATH = ("folder", "hf")  # named with the path of the data: folder:PATH


def find_source(name: str) -> type[Source]:
    """The class of a data source by name, with its path if it takes one, or by dotted path."""
    name = _without_path(name)[0]
    if ":" not in name and name not in DATASETS:
        raise CrossbiasError(
            f"there is no data set {name!r}{closest(name, DATASETS)}; "
            f"there are: {', '.join(DATASETS)}; your own is named package.module:Class"
        )
    kind = DATASETS[name] if name in DATASETS else imported(name)
    if not (isinstance(kind, type) and issubclass(kind, Source)):
        raise CrossbiasError(f"{name!r} is not a subclass of crossbias.data.Source")
    return kind


def create_source(name: str, **options: Any) -> Source:
    """A data source by name, its options checked."""
    kind = find_source(name)
    given = _without_path(name)[1] | options
    return kind(**validated(kind, given, f"data set {name!r}"))


def _without_path(name: str) -> tuple[str, dict[str, str]]:
    """The name of a source, and its path where the name goes on with one."""
    first, _, path = name.partition(":")
    return (first, {"path": path}) if first in _WITH_PATH else (name, {})


def load(
    name: str,
    split: str,
    *,
    root: Path | str | None = None,
    seed: int = 0,
    label_noise: float = 0.0,
    **options: Any,
) -> BiasedDataset:
    """One split of a named data set.

    Args:
        name: A key of ``DATASETS``, ``folder:PATH`` or ``hf:PATH``, or a dotted path.
        split: Such as ``train``, ``validation`` or ``test``.
        root: Folder of all data; what the environment variable ``CROSSBIAS_DATA`` names if not
            given.
        seed: Of everything random in how the data is made.
        label_noise: Fraction of the labels of ``train`` that are made wrong.
        **options: The data set's own, such as ``rho``.

    >>> data = load("glyphs", "train", size=100, rho=0.9)
    >>> len(data), data.bias, data.inputs.shape
    (100, 'background', torch.Size([100, 3, 28, 28]))
    """
    source = create_source(name, **options)
    return source.load(split, root=root, seed=seed, label_noise=label_noise)
