"""check_cache: recompute the digests of all images in the cache."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crossbias.data.dataset import tensor_digest
from crossbias.data.images.private_folder import check_private
from crossbias.data.memory_maps import cache_folder, mapped
from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json


class CheckedShard(NamedTuple):
    """One shard of the cache."""

    folder: Path
    size: int  # in bytes
    problem: str  # empty if its pixels are those that were decoded


def check_cache(cache: Path | None = None) -> Iterator[CheckedShard]:
    """Compare every finished shard of the cache with the digest of its pixels when decoded.

    Args:
        cache: The folder; by default that of ``CROSSBIAS_CACHE``, or the user's own.
    """
    for index in sorted(cache_folder(cache).glob("*/*/index.json")):
        pixels = index.with_name("pixels")
        if not pixels.is_file():
            yield CheckedShard(index.parent, 0, "its pixels are missing")
            continue
        yield CheckedShard(index.parent, pixels.stat().st_size, _problem(index, pixels))


def _problem(index: Path, pixels: Path) -> str:
    """What is wrong with a shard; empty if nothing is."""
    try:
        check_private(index.parent.parent)
        check_private(index.parent)
        about = read_json(index)
        shape = tuple(map(int, about["shape"]))
        if math.prod(shape) != pixels.stat().st_size:
            return "its pixels do not have the recorded shape"
        same = tensor_digest(mapped(pixels, shape)) == about["digest"]
    except (CrossbiasError, KeyError, TypeError, ValueError) as error:
        return f"it cannot be checked ({error})"
    return "" if same else "its pixels are not those that were decoded"
