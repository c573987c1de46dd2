"""A re-textured copy of the training images: what its folder holds, and the union with it."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset, tensor_digest
from crossbias.data.images.decoding import Fit, read_images
from crossbias.data.memory_maps import joined
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress
from crossbias.runs.files import read_json

ABOUT: Final = "stylized.json"
"""The file that says what the images in the folder were made from."""


def image_files(folder: Path, count: int) -> list[Path]:
    """The file of each training image, in order."""
    return [folder / f"{row:06d}.png" for row in range(count)]


def facts_of(data: BiasedDataset) -> dict[str, Any]:
    """What a copy records of the images it was made from, and is later compared with."""
    check_images(data)
    return {"shape": list(data.inputs.shape), "inputs": data.digest or tensor_digest(data.inputs)}


def check_images(data: BiasedDataset) -> None:
    """Refuse what has no re-textured copy: vectors, clips, other than square images."""
    shape = data.inputs.shape
    if data.inputs.ndim != 4 or shape[1] not in (1, 3) or shape[2] != shape[3]:
        raise CrossbiasError(
            f"only square images in color or gray have a re-textured copy, but {data.name} has "
            f"inputs {tuple(shape[1:])}; take other data"
        )


def with_stylized(
    data: BiasedDataset, folder: Path, *, progress: Progress | None = None
) -> BiasedDataset:
    """The training images and, after them, their re-textured copies, with the same labels.

    Args:
        data: The training split.
        folder: What ``crossbias data stylize`` made from the same images.
        progress: Receives reports while the copies are decoded.
    """
    facts = facts_of(data)
    if not (folder / ABOUT).exists():
        raise CrossbiasError(
            f"{folder} is no re-textured copy; make one with: crossbias data stylize {data.name} "
            f"--out {folder}"
        )
    about = read_json(folder / ABOUT)
    if not isinstance(about, dict) or {name: about.get(name) for name in facts} != facts:
        raise CrossbiasError(
            f"the images in {folder} were made from others than the training images of "
            f"{data.name}; make them again with the same data options: crossbias data stylize"
        )
    count, channels, side, _ = data.inputs.shape
    fit = Fit(side, "crop", 3 if channels == 3 else 1)
    copies, _ = read_images(image_files(folder, count), fit, progress=progress)
    return replace(
        data,
        inputs=joined(data.inputs, copies),
        targets=_twice(data.targets),
        attributes={name: _twice(column) for name, column in data.attributes.items()},
        alignments=dict(data.alignments) | ({data.bias: data.alignment()} if data.bias else {}),
        cluster=None if data.cluster is None else _twice(data.cluster),
        full_size=0,  # the rows are counted anew
        digest="",
    )


def _twice(column: Tensor) -> Tensor:
    return torch.cat([column, column])
