"""load: one split of a data set by name, one's own images at the size that a training chooses."""

from pathlib import Path
from typing import Any

from crossbias.data import BiasedDataset, create_source
from crossbias.data import load as load_as_named
from crossbias.data.own.table_source import TableSource
from crossbias.defaults import Chosen


def load(
    name: str,
    split: str,
    *,
    root: Path | str | None = None,
    seed: int = 0,
    **options: Any,
) -> BiasedDataset:
    """Load one split of a named data set, as ``crossbias.data.load`` does.

    Your own images (``folder:``, ``hf:``, ``webdataset:``) are read at the size that ``crossbias
    train`` chooses on this machine, unless ``size`` is given.

    Args:
        name: A key of ``crossbias.data.DATASETS``, ``folder:PATH``, ``hf:PATH``,
            ``webdataset:PATH``, or a dotted path.
        split: Name of the split, such as ``train``, ``validation`` or ``test``.
        root: Folder of all data. The default is the folder that the environment variable
            ``CROSSBIAS_DATA`` names.
        seed: Seed of everything random in how the data is made.
        **options: Options of the data set, such as ``rho``, and further keywords of
            ``crossbias.data.load``.

    >>> data = load("glyphs", "train", size=100, rho=0.9)
    >>> len(data), data.bias, data.inputs.shape
    (100, 'background', torch.Size([100, 3, 28, 28]))
    """
    chosen = _chosen_size(name, seed, options)
    return load_as_named(name, split, root=root, seed=seed, **chosen, **options)


def _chosen_size(name: str, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """The size of one's own images, if it is not given."""
    own = {key: value for key, value in options.items() if key not in ("label_noise", "stylized")}
    source = create_source(name, **own)
    if "size" in options or not isinstance(source, TableSource):
        return {}
    from crossbias.train.devices import find_device  # brings Fabric

    Chosen.of(source, data=own, network={}, gpu=find_device("auto").type != "cpu", seed=seed)
    return {"size": source.size}
