"""write_planted: a planted data set as a folder of images with a table of labels."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from PIL import Image

from crossbias.data.dataset import BiasedDataset
from crossbias.data.planting.planted_cues import PlantedCue
from crossbias.data.planting.planting import plant
from crossbias.data.source import Source
from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown


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
        rows += _write_split(planted, out)
    with open(out / "labels.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "split", "target", *planted.attributes])
        writer.writerows(rows)
    return len(rows), tuple(planted.inputs.shape[1:])


def _write_split(data: BiasedDataset, out: Path) -> list[list[str]]:
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
