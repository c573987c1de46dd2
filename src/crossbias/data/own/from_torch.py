"""from_torch: read any torch Dataset into a BiasedDataset."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.parameters import closest
from crossbias.types import UNKNOWN

Key = int | str  # position in a tuple, or key of a dictionary

Names = tuple[str, ...]


def from_torch(
    dataset: Dataset[Any],
    *,
    inputs: Key = 0,
    target: Key = 1,
    bias: Key | None = None,
    attributes: Mapping[str, Key] | None = None,
    classes: Names = (),
    values: Mapping[str, Names] | None = None,
    **description: Any,
) -> BiasedDataset:
    """Read a torch Dataset once, into memory.

    Its samples are tuples or dictionaries. Images are PIL images, uint8 tensors (C, H, W), or
    floating-point tensors in [0, 1], all of one size. Vectors are floating-point tensors (D,).
    Each sample is read once, so a random transform would be frozen: leave it out, and configure
    augmentations of the training instead.

    Args:
        dataset: A data set with ``len`` and samples by number.
        inputs: Key of the image or vector in a sample.
        target: Key of the class, which is a number or text. Numbers are kept as they are.
        bias: Key of the bias, which is a number, text, or None where it is unknown. The attribute
            is named after the key if that is text, else ``bias``.
        attributes: Keys of further attributes, by name of the attribute.
        classes: Names of the classes in order. By default classes in text are sorted, and every
            split must have all of them.
        values: The same for each attribute.
        **description: Other arguments of ``BiasedDataset``, such as ``name``, ``split``, ``mean``.

    >>> from torch.utils.data import TensorDataset
    >>> vectors, ill = torch.rand(4, 2), torch.tensor([0, 1, 0, 1])
    >>> data = from_torch(TensorDataset(vectors, ill, torch.arange(4) // 2), bias=2)
    >>> data.counts().tolist()
    [[1, 1], [1, 1]]
    """
    named = dict(attributes or {})
    title = bias if isinstance(bias, str) else "bias"
    if bias is not None:
        named[title] = bias
    pixels, columns = _read(dataset, {"inputs": inputs, "target": target} | named)
    names = dict(values or {})
    targets, classes = _numbers("target", columns.pop("target"), classes)
    if int(targets.min()) < 0:
        row = int((targets < 0).nonzero()[0])
        raise CrossbiasError(f"sample {row} of the data set has no target; leave the sample out")
    encoded = {name: _numbers(name, columns[name], names.get(name, ())) for name in named}
    return BiasedDataset(
        inputs=pixels,
        targets=targets,
        classes=classes,
        attributes={name: column for name, (column, _) in encoded.items()},
        values={name: found for name, (_, found) in encoded.items()},
        bias=None if bias is None else title,
        **description,
    )


def _read(dataset: Dataset[Any], keys: dict[str, Key]) -> tuple[Tensor, dict[str, list[Any]]]:
    """The inputs, and the column of every other key."""
    size = len(dataset) if hasattr(dataset, "__len__") else 0
    if not size:
        raise CrossbiasError("the data set has no samples or no length; it needs both")
    columns: dict[str, list[Any]] = {name: [] for name in keys if name != "inputs"}
    first = _input(_part(dataset[0], keys["inputs"], 0), 0)
    rows = first.new_empty((size, *first.shape))
    for number in range(size):
        sample = dataset[number]
        row = _input(_part(sample, keys["inputs"], number), number)
        if row.shape != first.shape or row.dtype != first.dtype:
            raise CrossbiasError(
                f"sample {number} of the data set is {tuple(row.shape)} {row.dtype}, the first is "
                f"{tuple(first.shape)} {first.dtype}; resize all to one size in the data set"
            )
        rows[number] = row
        for name, column in columns.items():
            column.append(_part(sample, keys[name], number))
    return rows, columns


def _part(sample: Any, key: Key, number: int) -> Any:
    try:
        return sample[key]
    except (LookupError, TypeError):
        known = list(sample) if isinstance(sample, Mapping) else type(sample).__name__
        raise CrossbiasError(
            f"sample {number} of the data set has no {key!r}; it has {known}"
        ) from None


def _input(value: Any, number: int) -> Tensor:
    """An image as uint8 (C, H, W), or a vector."""
    if isinstance(value, Image.Image):
        if value.mode[0] in "IF":  # Pillow's conversion would cut off everything above 255
            raise CrossbiasError(
                f"the image of sample {number} has more than 8 bits (mode {value.mode}); scale it "
                f"to 8 bits in the data set"
            )
        pixels = np.asarray(value if value.mode in ("L", "RGB") else value.convert("RGB"))
        return torch.from_numpy(np.atleast_3d(pixels).transpose(2, 0, 1).copy())
    row = torch.as_tensor(value)
    if row.ndim == 3 and row.is_floating_point():
        if row.min() < 0 or row.max() > 1:
            raise CrossbiasError(
                f"the image of sample {number} has values from {float(row.min()):g} to "
                f"{float(row.max()):g}; leave the normalization out and pass mean= and std="
            )
        return (255 * row).round().to(torch.uint8)
    if (row.ndim == 3 and row.dtype == torch.uint8) or (row.ndim == 1 and row.is_floating_point()):
        return row
    raise CrossbiasError(
        f"sample {number} of the data set is {tuple(row.shape)} {row.dtype}; it must be an image "
        f"(C, H, W), uint8 or in [0, 1], or a vector (D,) of floating-point numbers"
    )


def _numbers(name: str, column: list[Any], names: Names) -> tuple[Tensor, Names]:
    """A column as numbers, and the names of its values; numbers are kept as they are."""
    cells = [cell.item() if isinstance(cell, (Tensor, np.generic)) else cell for cell in column]
    known: set[Any] = {cell for cell in cells if not _is_missing(cell)}
    places: dict[Any, int]
    if all(isinstance(cell, str) for cell in known):
        names = names or tuple(sorted(known))
        places = {text: place for place, text in enumerate(names)}
    elif not any(isinstance(cell, str) for cell in known):
        places = {cell: int(cell) for cell in known if float(cell).is_integer() and cell >= 0}
        names = names or tuple(
            str(number) for number in range(max(places.values(), default=-1) + 1)
        )
    else:
        places = {}
    if strange := sorted(map(str, known - places.keys())):
        raise CrossbiasError(
            f"{name} is {strange[0]!r} in the data set{closest(strange[0], names)}; it must be "
            f"{f'one of {names}' if names else 'whole numbers from 0, or text, in all samples'}"
        )
    return torch.tensor([places.get(cell, UNKNOWN) for cell in cells]), names


def _is_missing(cell: Any) -> bool:
    return cell is None or cell in ("", UNKNOWN) or (isinstance(cell, float) and math.isnan(cell))
