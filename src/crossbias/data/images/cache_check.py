"""check_cache: recompute the digests of all images in the cache."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crossbias.data.dataset import tensor_digest
from crossbias.data.images.cache_entry import (
    differing_rows,
    places_of,
    read_records,
    read_sizes,
    rows_digest,
    seals_of,
)
from crossbias.data.images.private_folder import check_private
from crossbias.data.memory_maps import cache_folder, mapped
from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json


class CheckedShard(NamedTuple):
    """One shard of the cache."""

    folder: Path
    size: int  # in bytes
    problem: str  # empty if its images are those that were stored


def check_cache(cache: Path | None = None) -> Iterator[CheckedShard]:
    """Compare every finished shard of the cache with the digest of its images when stored.

    Args:
        cache: The folder; by default that of ``CROSSBIAS_CACHE``, or the user's own.
    """
    for index in sorted(cache_folder(cache).glob("*/*/index.json")):
        stored = [index.with_name(name) for name in ("pixels", "encoded")]
        found = next((path for path in stored if path.is_file()), None)
        if found is None:
            yield CheckedShard(index.parent, 0, "its pixels are missing")
            continue
        yield CheckedShard(index.parent, found.stat().st_size, _problem(index, found))


def _problem(index: Path, stored: Path) -> str:
    """What is wrong with a shard; empty if nothing is."""
    check = _problem_of_pixels if stored.name == "pixels" else _problem_of_encoded
    try:
        check_private(index.parent.parent)
        check_private(index.parent)
        about = read_json(index)
        return check(stored, tuple(map(int, about["shape"])), about["digest"])
    except (CrossbiasError, OSError, KeyError, TypeError, ValueError) as error:
        return f"it cannot be checked ({error})"


def _problem_of_pixels(stored: Path, shape: tuple[int, ...], digest: str) -> str:
    if math.prod(shape) != stored.stat().st_size:
        return "its pixels do not have the recorded shape"
    same = tensor_digest(mapped(stored, shape)) == digest
    return "" if same else "its pixels are not those that were decoded"


def _problem_of_encoded(stored: Path, shape: tuple[int, ...], digest: str) -> str:
    records, places = read_records(stored.parent), places_of(read_sizes(stored.parent))
    if places[-1] != stored.stat().st_size or len(places) != len(records) + 1:
        return "its images do not have the recorded sizes"
    same = rows_digest(shape, [records["pixels"]]) == digest
    same = same and not differing_rows(stored, places, seals_of(records, encoded=True))
    return "" if same else "its images are not those that were stored"
