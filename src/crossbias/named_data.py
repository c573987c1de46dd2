"""load: one split of a data set by name, one's own images at the size that a training chooses."""

from pathlib import Path
from typing import Any

from crossbias.data import BiasedDataset, create_source
from crossbias.data.own.table_source import TableSource
from crossbias.defaults import Chosen


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

    Your own images (``folder:PATH``, ``hf:PATH``) are read at the size that ``crossbias train``
    chooses on this machine, unless ``size`` is given.

    Args:
        name: A key of ``crossbias.data.DATASETS``, ``folder:PATH``, ``hf:PATH``, or a dotted path.
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
    if isinstance(source, TableSource):
        from crossbias.train.devices import find_device  # brings Fabric

        gpu = find_device("auto").type != "cpu"
        Chosen.of(source, data=options, network={}, gpu=gpu, seed=seed)
    return source.load(split, root=root, seed=seed, label_noise=label_noise, stylized=stylized)
