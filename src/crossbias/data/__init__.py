"""Data with a bias: one contract, named sources, and batches on the device."""

from pathlib import Path
from typing import Any

from crossbias.data.cues import plant_values
from crossbias.data.dataset import BiasedDataset
from crossbias.data.glyphs import Glyphs
from crossbias.data.noise import with_label_noise
from crossbias.data.planting import plant, replant
from crossbias.data.source import Source
from crossbias.errors import CrossbiasError
from crossbias.parameters import closest, imported, validated

DATASETS: dict[str, type[Source]] = {"glyphs": Glyphs}
"""Data sources by name; the reader's own are named by dotted path."""

__all__ = [
    "DATASETS",
    "BiasedDataset",
    "Glyphs",
    "Source",
    "create_source",
    "find_source",
    "load",
    "plant",
    "plant_values",
    "replant",
    "with_label_noise",
]


def find_source(name: str) -> type[Source]:
    """The class of a data source by name or dotted path."""
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
    return kind(**validated(kind, options, f"data set {name!r}"))


def load(
    name: str, split: str, *, root: Path | str | None = None, seed: int = 0, **options: Any
) -> BiasedDataset:
    """One split of a named data set.

    Args:
        name: A key of ``DATASETS``, or a dotted path.
        split: Such as ``train``, ``validation`` or ``test``.
        root: Folder of the files, for data sets that have any.
        seed: Of everything random in how the data is made.
        **options: The data set's own, such as ``rho``.

    >>> data = load("glyphs", "train", size=100, rho=0.9)
    >>> len(data), data.bias, data.inputs.shape
    (100, 'background', torch.Size([100, 3, 28, 28]))
    """
    return create_source(name, **options).load(split, root=root, seed=seed)
