"""``webdataset:PATH``: images and labels in WebDataset tars."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from crossbias.data.images.cache import Store
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.lazy_rows import LazyRows
from crossbias.data.own.labels import SPLIT_COLUMN, SPLIT_NAMES
from crossbias.data.own.table import LabelTable
from crossbias.data.own.table_source import Bits, TableSource
from crossbias.data.own.tar_rows import TarRows
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
        columns, numbers = dict(samples.labels), range(len(samples))
        splits = {tar: _split_of(tar) for tar in dict.fromkeys(map(samples.tar, numbers))}
        known = all(splits.values()) and (self.judged_only or "train" in splits.values())
        if SPLIT_COLUMN not in columns and known:
            columns[SPLIT_COLUMN] = [splits[samples.tar(row)] or "" for row in numbers]
        return LabelTable(self.path, columns, LazyRows(samples.where, numbers))

    @cached_property
    def items(self) -> Sequence[EncodedImage]:
        """The image of every sample."""
        return LazyRows(self._samples.image, range(len(self._samples)))

    @cached_property
    def _samples(self) -> TarRows:
        samples = TarRows(self._tars)
        if not len(samples):
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
