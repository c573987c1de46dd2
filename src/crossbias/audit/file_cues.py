"""Cues in the files rather than in the pixels: size, compression and folder."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.audit.cues import Cue
from crossbias.errors import CrossbiasError

_VALUES: Final = 30  # most frequent file types or folders; all others count as one


def file_cues(files: Sequence[Path], classes: Sequence[str]) -> list[Cue]:
    """Size, compression and folder of image files, one for each sample.

    A folder with the name of the sample's class is left out of the path: it is how the class was
    written down, not a cue.
    """
    heads = [_head(file) for file in files]
    kinds = [f"{image_format} {mode}" for _, image_format, mode in heads]
    numbers = torch.tensor([values for values, _, _ in heads], dtype=torch.float64)
    folders = [
        str(PurePath(*(part for part in file.parent.parts if part != name)))
        for file, name in zip(files, classes, strict=True)
    ]
    measured = torch.cat([numbers, numbers.square(), _one_hot(kinds)], 1)
    return [
        Cue("file format", "size in pixels and bytes, compression, type of file", measured),
        Cue(
            "file folder",
            "the folder of the file, without the name of the class",
            _one_hot(folders),
        ),
    ]


def _head(file: Path) -> tuple[list[float], str, str]:
    """Numbers, format and mode of an image file, from its header."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            width, height = image.size
            size = file.stat().st_size
            tables: dict[int, Any] = getattr(image, "quantization", None) or {}
            coarseness = sum(sum(table) for table in tables.values()) / 64
            numbers = [
                math.log(width), math.log(height), math.log(max(size, 1)),
                math.log(max(size, 1) / (width * height)), math.log1p(coarseness),
            ]  # fmt: skip
            return numbers, image.format or "", image.mode
    except UnidentifiedImageError:
        raise CrossbiasError(f"{file} is not an image; leave it out of the audited files") from None
    except OSError as error:
        raise CrossbiasError(
            f"cannot read {file} ({error.strerror or error}); put it back or leave it out"
        ) from error


def _one_hot(values: Sequence[str]) -> Tensor:
    """One column for each of the most frequent values, (n, d)."""
    frequent = [value for value, _ in Counter(values).most_common(_VALUES)]
    number = {value: position for position, value in enumerate(frequent)}
    columns = torch.tensor([number.get(value, _VALUES) for value in values])
    return F.one_hot(columns, _VALUES + 1)[:, : len(frequent)].double()
