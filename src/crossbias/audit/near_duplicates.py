"""Near-duplicates: images so alike that they may show the same patient, object or scene."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.memory_maps import in_parts
from crossbias.seeds import generator_for

EXAMINED: Final = 2_000  # samples whose neighbors are searched, drawn at random

_SIDE: Final = 8  # of the thumbnails that are compared
_NEIGHBORS: Final = 20  # the distance to this neighbor is the usual one around an image
_CLOSE: Final = 0.2  # a near-duplicate is closer than this share of the usual distance
_FEWEST: Final = 0.05  # share of samples with a near-duplicate from which on it matters
_CHUNK: Final = 2**23  # values or distances at a time


class NearDuplicates(NamedTuple):
    """How many of the samples examined have a near-duplicate outside of their cluster."""

    number: int
    examined: int
    pair: tuple[str, str]  # files, or numbers, of the two images that are most alike


def near_duplicates(
    data: BiasedDataset, *, files: Sequence[Path] | None = None, seed: int
) -> NearDuplicates | None:
    """Search images for near-duplicates; None if there are few, or the inputs are no images.

    Images are compared as gray thumbnails, whatever their brightness and contrast. An image has a
    near-duplicate if its nearest neighbor is much closer than its twentieth. The share matters, and
    not a single pair: in MNIST, digits of one stroke come close too, but few of them. More than
    twenty images of one patient are not found.
    """
    if data.inputs.ndim != 4 or len(data) <= 2 * _NEIGHBORS:
        return None
    looks = _looks(data.inputs)
    draw = generator_for(seed, "near-duplicates")
    rows = torch.randperm(len(data), generator=draw)[:EXAMINED]
    parts = rows.split(max(1, _CHUNK // len(data)))  # type: ignore[no-untyped-call]
    found = [_nearest(looks, some, data.cluster) for some in parts]
    ratio, nearest = (torch.cat(part) for part in zip(*found, strict=True))
    number = int((ratio < _CLOSE).sum())
    if number < _FEWEST * len(rows):
        return None
    closest = int(ratio.argmin())
    pair = [_name(data, files, int(row[closest])) for row in (rows, nearest)]
    return NearDuplicates(number, len(rows), (pair[0], pair[1]))


def _looks(images: Tensor) -> Tensor:
    """Gray thumbnails with mean 0 and norm 1, (n, side²); 0 for images of one shade."""
    size = max(1, _CHUNK // images[0].numel())
    parts = [
        F.adaptive_avg_pool2d(chunk.float(), (_SIDE, _SIDE)).mean(1).flatten(1)
        for chunk in in_parts(images, size)
    ]
    centered = torch.cat(parts)
    centered -= centered.mean(1, keepdim=True)
    norm = centered.norm(dim=1, keepdim=True)
    return torch.where(norm > _SIDE, centered / norm.clamp(min=1e-9), 0.0)  # a gray level or more


def _nearest(looks: Tensor, rows: Tensor, cluster: Tensor | None) -> tuple[Tensor, Tensor]:
    """How close the nearest image is, relative to the usual distance, and which one it is."""
    likeness = looks[rows] @ looks.T
    if cluster is None:
        likeness[torch.arange(len(rows)), rows] = -1.0
    else:
        likeness[cluster[rows][:, None] == cluster] = -1.0
    best = likeness.topk(_NEIGHBORS, 1)
    distance = (2 - 2 * best.values).clamp(min=0).sqrt()
    blank = ~looks[rows].any(1)  # an image of one shade is like nothing
    ratio = distance[:, 0] / distance[:, -1].clamp(min=1e-9)
    return torch.where(blank, 1.0, ratio), best.indices[:, 0]


def _name(data: BiasedDataset, files: Sequence[Path] | None, row: int) -> str:
    return str(files[row]) if files is not None else f"sample {int(data.index[row])}"
