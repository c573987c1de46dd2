"""TarRows: the samples of all tars of a data set, kept by columns."""

import io
import os
import sys
from array import array
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.own.tar_samples import TarPlace, tar_samples
from crossbias.errors import CrossbiasError


class TarRows:
    """A row for each sample.

    Cells that are equal are one text, and nothing is kept that can be made again.

    Args:
        tars: The tars, in order.
    """

    def __init__(self, tars: Sequence[Path]) -> None:
        self.tars = tars
        self.labels: dict[str, list[str]] = {}  # cells by column; empty where there is no label
        self._tar_numbers = array("q")  # of each row
        self._offsets, self._sizes = array("q"), array("q")  # of its image
        self._keys: list[str] = []
        self._stamps = [_stamp(tar) for tar in tars]
        for number in range(len(tars)):
            self._read(number)

    def __len__(self) -> int:
        return len(self._keys)

    def tar(self, row: int) -> Path:
        """The tar that a row is in."""
        return self.tars[self._tar_numbers[row]]

    def where(self, row: int) -> str:
        """The position of a row in messages."""
        return f"{self.tar(row).name} {self._keys[row]}"

    def image(self, row: int) -> EncodedImage:
        """The image of a row, identified by its tar and its place there."""
        place = TarPlace(self._offsets[row], self._sizes[row])
        identity = repr((*self._stamps[self._tar_numbers[row]], *place))
        opened = partial(_opened, self.tar(row), place)
        return EncodedImage(identity, f"{self.where(row)}: the image", opened, place.size)

    def _read(self, number: int) -> None:
        """Add the samples of a tar."""
        for sample in tar_samples(self.tars[number]):
            if sample.image is None:
                raise CrossbiasError(
                    f"{self.tars[number]}: {sample.key} has no image; write one for each sample, "
                    f"as {sample.key}.jpg beside {sample.key}.json"
                )
            for name in sample.labels:
                if name not in self.labels:
                    self.labels[name] = [""] * len(self)
            for name, cells in self.labels.items():
                cells.append(sys.intern(sample.labels.get(name, "")))
            self._tar_numbers.append(number)
            self._offsets.append(sample.image.offset)
            self._sizes.append(sample.image.size)
            self._keys.append(sample.key)


def _stamp(tar: Path) -> tuple[str, int, int]:
    try:
        status = os.stat(tar)
    except OSError as error:
        raise CrossbiasError(f"cannot read {tar}: {error.strerror or error}") from error
    return os.path.abspath(tar), status.st_size, status.st_mtime_ns


def _opened(tar: Path, place: TarPlace) -> BinaryIO:
    with open(tar, "rb") as file:
        file.seek(place.offset)
        return io.BytesIO(file.read(place.size))
