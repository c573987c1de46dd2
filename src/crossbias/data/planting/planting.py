"""plant and replant: put a controlled shortcut into any images, in memory or as a folder."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from PIL import Image
from torch import Tensor

from crossbias.data.assignment import biased_values
from crossbias.data.dataset import BiasedDataset
from crossbias.data.planting.planted_cues import PlantedCue, plant_values
from crossbias.data.source import Source
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, convert, unknown
from crossbias.seeds import generator_for


def plant(dataset: BiasedDataset, *, bias: PlantedCue, rho: float, seed: int = 0) -> BiasedDataset:
    """The same images with a planted cue that is associated with the class.

    The cue has one value for each class and becomes the bias. Targets, other attributes and
    indices stay the same. The test split of an experiment needs another ``rho``: one over the
    number of classes makes the cue useless there.

    Args:
        dataset: Images of two or more classes, without an attribute named like the cue.
        bias: The kind of cue, see ``plant_values``; also the name of the new attribute.
        rho: Strength of the bias: floor(n * rho + 1/2) of the n images of a class have its
            aligned value. The rest is spread over the other values; their counts differ by at
            most one.
        seed: Decides which images conflict. Each split has its own draws.

    >>> images = torch.zeros(20, 3, 8, 8, dtype=torch.uint8)
    >>> data = BiasedDataset(inputs=images, targets=torch.arange(20) % 2)
    >>> planted = plant(data, bias="patch", rho=0.9)
    >>> planted.bias, planted.counts().tolist()
    ('patch', [[9, 1], [1, 9]])
    """
    rho = convert(rho, Fraction, "rho of the planted bias")
    if dataset.num_classes < 2:
        raise CrossbiasError(f"{dataset.name} has only one class: a cue needs two or more")
    values = biased_values(
        dataset.targets,
        values=dataset.num_classes,
        rho=rho,
        generator=generator_for(seed, "planting", bias, dataset.split),
    )
    planted = replant(dataset, values, bias=bias)
    return replace(planted, origin={**dataset.origin, "planted": [bias, rho, seed]})


def replant(dataset: BiasedDataset, values: Tensor, *, bias: PlantedCue) -> BiasedDataset:
    """The same images with the cue set to the given values, as for a counterfactual test.

    Args:
        dataset: The data set before any planting, because a cue cannot be removed.
        values: ``(n,)`` the value that each image shows.
        bias: The kind of cue.

    Raises:
        CrossbiasError: The attribute already exists, or the images cannot carry the cue.
    """
    if bias in dataset.attributes:
        raise CrossbiasError(
            f"{dataset.name} already has an attribute {bias!r}; plant into the data set as it was "
            f"before, or choose another cue"
        )
    count = dataset.num_classes
    return replace(
        dataset,
        inputs=plant_values(dataset.inputs, values, bias=bias, num_values=count),
        attributes={**dataset.attributes, bias: values},
        bias=bias,
        values={**dataset.values, bias: tuple(f"{bias} {number}" for number in range(count))},
        alignments={**dataset.alignments, bias: torch.eye(count, dtype=torch.bool)},
        origin={**dataset.origin, "planted": [bias]},
        digest="",
    )


def write_planted(
    source: Source,
    load: Callable[[str], BiasedDataset],
    out: Path,
    *,
    cue: str,
    rho: float,
    seed: int,
) -> tuple[int, tuple[int, ...]]:
    """Plant a cue into every split and write PNG images; ``labels.csv`` is written last.

    In test splits every value is equally frequent in every class, whatever ``rho``. Returns the
    number of images, and the shape of one, (channels, height, width).
    """
    if cue not in get_args(PlantedCue):
        raise unknown("there is no cue", cue, get_args(PlantedCue))
    if out.exists():
        raise CrossbiasError(f"{out} exists already; name a folder that does not")
    rows: list[list[str]] = []
    for split in source.available_splits:
        data = load(split)
        strength = rho if split in ("train", "validation") else 1 / data.num_classes
        planted = plant(data, bias=cue, rho=strength, seed=seed)  # type: ignore[arg-type]
        rows += write_split(planted, out)
    with open(out / "labels.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "split", "target", *planted.attributes])
        writer.writerows(rows)
    return len(rows), tuple(planted.inputs.shape[1:])


def write_split(data: BiasedDataset, out: Path) -> list[list[str]]:
    """Write the images of a split as PNG files; returns a row of ``labels.csv`` for each."""
    folder = out / data.split
    folder.mkdir(parents=True)
    rows = []
    for row, pixels in enumerate(data.inputs):
        name = f"{data.split}/{row:06d}.png"
        channels_last = pixels.permute(1, 2, 0).contiguous().numpy()
        Image.fromarray(channels_last.squeeze()).save(out / name)
        values = [
            data.values[attribute][int(column[row])] if int(column[row]) >= 0 else ""
            for attribute, column in data.attributes.items()
        ]
        rows.append([name, data.split, data.classes[int(data.targets[row])], *values])
    return rows
