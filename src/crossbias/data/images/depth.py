"""How many bits the values of 16-bit images use: one number for a whole data set.

Cameras and scanners often store values of 10, 12 or 14 bits in files of 16. Read as 16 bits, such
images are nearly black.
"""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from crossbias.data.images.decoding import open_image, wide_values
from crossbias.data.images.dicom import is_dicom
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.images.encoded_shard import processors
from crossbias.data.memory_maps import cache_folder
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress
from crossbias.runs.files import read_json, write_json

_BLOCK = 2**14  # images looked at at a time
_PART = 64  # images that a thread looks at before it hands its findings over


class WideImages(NamedTuple):
    """The gray images of a data set that are stored with 16 bits."""

    images: int  # their number
    largest: int  # their largest value

    @property
    def depth(self) -> int | None:
        """The smallest number of bits from 8 to 16 that holds all values; None without images."""
        return max(8, self.largest.bit_length()) if self.images else None

    def __str__(self) -> str:
        return f"{self.images:,} images have 16 bits, and their largest value is {self.largest:,}"


def wide_images(
    items: Sequence[EncodedImage], *, cache: Path | None = None, progress: Progress | None = None
) -> WideImages:
    """Find the 16-bit images among all images of a data set, and their largest value.

    The result is kept in the cache, so the files are opened again only if one of them changed.
    """
    path = cache_folder(cache) / "wide" / f"{_key(items)}.json"
    with suppress(CrossbiasError, TypeError):  # not there, damaged, or of another version
        return WideImages(**read_json(path))
    found = WideImages(0, 0)
    with ThreadPoolExecutor(processors()) as pool:
        # A pool holds a kilobyte for each task, so it gets some at a time.
        for start in range(0, len(items), _BLOCK):
            block = items[start : start + _BLOCK]
            parts = [block[at : at + _PART] for at in range(0, len(block), _PART)]
            for value in chain.from_iterable(pool.map(_largest_of_each, parts)):
                if value is not None:
                    if progress is not None and not found.images:
                        progress.note("there are 16-bit images; finding their largest value, once")
                    found = WideImages(found.images + 1, max(found.largest, value))
    with suppress(CrossbiasError, OSError):  # whoever decodes the images reports a full disk
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, found._asdict())
    return found


def _key(items: Iterable[EncodedImage]) -> str:
    """A name for what these images are."""
    key = hashlib.sha256()
    for item in items:
        key.update(f"{item.identity!r}, ".encode())
    return key.hexdigest()[:32]


def _largest_of_each(items: Iterable[EncodedImage]) -> list[int | None]:
    return list(map(_largest, items))


def _largest(item: EncodedImage) -> int | None:
    """The largest value of a 16-bit image; None for others, and for those that are unusable."""
    # Decoding comes later and names everything that is unusable.
    with suppress(Exception), item.open() as file:
        if is_dicom(file):  # which says itself how many bits it uses
            return None
        with open_image(file) as image:
            values = wide_values(image)
            return None if values is None else int(values.max())
    return None
