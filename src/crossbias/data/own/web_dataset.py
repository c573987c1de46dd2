"""``webdataset:PATH``: images and labels in WebDataset tars."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO, Literal

from crossbias.data.images.cache import Store
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.own.labels import SPLIT_COLUMN, SPLIT_NAMES
from crossbias.data.own.table import LabelTable
from crossbias.data.own.table_source import Bits, TableSource
from crossbias.data.own.tar_samples import TarPlace, TarSample, tar_samples
from crossbias.errors import CrossbiasError
from crossbias.parameters import Count, Fraction


@dataclass(kw_only=True)
class WebDataset(TableSource):
    """Tars in the layout of WebDataset: files of one sample agree up to the first dot.

    ``0001.jpg`` is the image of a sample, and ``0001.json`` or ``0001.cls`` has its labels.
    ``path`` is a tar or a folder of tars. If the name of every tar begins with a split, as in
    ``train-0001.tar``, and one is ``train``, these are the splits. The options are those of
    ``Folder``, without ``labels``, ``file`` and ``tags``.
    """

    name = "webdataset"
    summary = "images and labels in WebDataset tars: webdataset:PATH"

    path: str = ""
    target: str | None = None
    bias: str | None = None
    attributes: tuple[str, ...] | None = None
    split_by: str = SPLIT_COLUMN
    group_by: str | None = None
    cluster: str | None = None
    validation: Fraction = 0.1
    test: Fraction = 0.2
    size: Count = 224
    fit: Literal["crop", "squash"] = "crop"
    channels: Literal[1, 3] = 3
    depth: Bits | None = None
    store: Store = "pixels"

    @cached_property
    def table(self) -> LabelTable:
        """The labels of all samples, each with an empty cell where a sample has no such label."""
        samples = self._samples
        names = dict.fromkeys(name for _, sample in samples for name in sample.labels)
        columns = {name: [sample.labels.get(name, "") for _, sample in samples] for name in names}
        splits = {tar: _split_of(tar) for tar, _ in samples}
        known = all(splits.values()) and (self.judged_only or "train" in splits.values())
        if SPLIT_COLUMN not in columns and known:
            columns[SPLIT_COLUMN] = [splits[tar] or "" for tar, _ in samples]
        where = [f"{tar.name} {sample.key}" for tar, sample in samples]
        return LabelTable(self.path, columns, where)

    @cached_property
    def items(self) -> list[EncodedImage]:
        """The image of every sample, identified by its tar and its place there."""
        stamps = {tar: _stamp(tar) for tar in {tar for tar, _ in self._samples}}
        items = []
        for (tar, sample), where in zip(self._samples, self.table.where, strict=True):
            assert sample.image is not None  # samples without an image were refused
            identity = repr((*stamps[tar], *sample.image))
            opened = partial(_opened, tar, sample.image)
            items.append(EncodedImage(identity, f"{where}: the image", opened, sample.image.size))
        return items

    @cached_property
    def _samples(self) -> list[tuple[Path, TarSample]]:
        """The tar and the sample of every row."""
        samples = [(tar, sample) for tar in self._tars for sample in tar_samples(tar)]
        for tar, sample in samples:
            if sample.image is None:
                raise CrossbiasError(
                    f"{tar}: {sample.key} has no image; write one for each sample, as {sample.key}"
                    f".jpg beside {sample.key}.json"
                )
        if not samples:
            raise CrossbiasError(f"{self.path} has no samples in its tars")
        return samples

    @cached_property
    def _tars(self) -> Sequence[Path]:
        path = Path(self.path)
        if self.path and path.is_file():
            return [path]
        if not self.path or not path.is_dir():
            raise CrossbiasError(
                f"{self.path!r} is neither a tar nor a folder of tars; name yours as "
                f"webdataset:PATH"
            )
        tars = sorted(file for file in path.rglob("*.tar") if not file.name.startswith("."))
        if not tars:
            raise CrossbiasError(f"{path} has no .tar files in it")
        return tars


def _split_of(tar: Path) -> str | None:
    """The split that a tar's name begins with, as in ``train-0001.tar`` or ``val_3.tar``."""
    first = tar.stem.replace("_", "-").split("-")[0]
    return SPLIT_NAMES.get(first.lower())


def _stamp(tar: Path) -> tuple[str, int, int]:
    status = os.stat(tar)
    return os.path.abspath(tar), status.st_size, status.st_mtime_ns


def _opened(tar: Path, place: TarPlace) -> BinaryIO:
    with open(tar, "rb") as file:
        file.seek(place.offset)
        return io.BytesIO(file.read(place.size))
