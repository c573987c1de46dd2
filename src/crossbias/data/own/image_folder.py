"""``folder:PATH``: image files with a table of labels, or with a folder for each class."""

import filecmp
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from crossbias.data.images.cache import Store
from crossbias.data.images.decoding import file_items
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.images.files_inside import files_inside
from crossbias.data.own.dicom_tags import is_personal, with_tags
from crossbias.data.own.labels import SPLIT_COLUMN, SPLIT_NAMES
from crossbias.data.own.table import LabelTable
from crossbias.data.own.table_files import read_table
from crossbias.data.own.table_source import Bits, TableSource
from crossbias.errors import CrossbiasError
from crossbias.parameters import Count, Fraction


@dataclass(kw_only=True)
class Folder(TableSource):
    """Images in a folder, labeled by a table or by the folders they are in.

    With ``labels``, each row of the table names an image in the folder. Without it, images are
    at ``PATH/CLASS/...``, or at ``PATH/SPLIT/CLASS/...`` where one of the splits is ``train``, and
    the target is ``class``.

    Args:
        path: The folder of the images.
        labels: A ``.csv``, ``.tsv`` or ``.parquet`` file, in the working folder or in ``path``. Two
            that differ are refused.
        file: Column with the names of the images, relative to ``path``.
        target: Column of the classes. Numbers are binned if limits are given: ``age:30,40``.
        bias: Column of the bias, where a value may be missing. Several columns, separated by
            commas, are combined into one bias. Numbers are binned as in ``target``.
        attributes: Further columns by which results are reported. The default is every column of
            2 to 20 values that have five rows or more on average; ``()`` is none.
        split_by: Column of the splits, one of which is ``train``. Without such a column, splits
            are drawn with the seed of the data, with the same fractions in every group.
        group_by: Column of what must stay in one split, such as the patient.
        cluster: Column of samples that belong together, if the splits are already given. Intervals
            and tests take it into account; the splits do not. The default is ``group_by``.
        validation: Fraction of the images in a drawn ``validation`` split.
        test: Fraction of the images in a drawn ``test`` split.
        size: Side of the images in pixels. ``crossbias train`` and ``crossbias.load`` choose it if
            it is not given.
        fit: ``crop`` keeps the proportions and cuts out the middle square, ``squash`` distorts.
        channels: 3 for color, or 1 for gray.
        depth: Number of bits that the values of 16-bit images use, such as 12. The default is
            the smallest number that holds the largest value of all images.
        store: What the cache keeps: the decoded ``pixels``, or the ``bytes`` of the files, which
            are then decoded whenever a batch is made. Batches are the same.
        tags: Tags of DICOM files that become columns, such as ``Manufacturer``. No other tag is
            read.
    """

    name = "folder"
    summary = "your own images: folder:PATH with labels=TABLE or with class folders"

    path: str = ""
    labels: str | None = None
    file: str = "file"
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
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.labels is None and self.target is None:
            self.target = "class"

    @cached_property
    def table(self) -> LabelTable:
        """All rows, with the tags of DICOM files that are asked for."""
        return with_tags(self._written, self.all_files, self.tags) if self.tags else self._written

    @cached_property
    def _written(self) -> LabelTable:
        """The table of labels; no file may occur in two of its rows."""
        if not self.path or not Path(self.path).is_dir():
            given = Path(self.path)
            beside = f", and the table with --labels {given.name}" if given.is_file() else ""
            raise CrossbiasError(
                f"{self.path!r} is not a folder; name yours as folder:PATH{beside}"
            )
        table = self._listed() if self.labels is None else read_table(self._labels_file())
        if self.file not in table.columns:
            raise CrossbiasError(
                f"{table.name} has no column {self.file!r} of the names of the images; if another "
                f"column has them, name it with --set data.file=COLUMN (its columns are: "
                f"{', '.join(table.columns)})"
            )
        seen: dict[str, int] = {}
        for row, name in enumerate(table.column(self.file)):
            if (first := seen.setdefault(os.path.normpath(name), row)) != row:
                raise CrossbiasError(
                    f"{table.where[row]} names {name}, and so does {table.where[first]}; "
                    f"an image may have only one row"
                )
        return table

    @property
    def apart(self) -> list[str]:
        """Columns that are not about the images, which are attributes only if they are named."""
        personal = [tag for tag in self.tags if is_personal(tag)]
        return [self.file, *super().apart, *personal]

    def files(
        self, split: str, *, root: Path | str | None = None, seed: int = 0
    ) -> Sequence[Path] | None:
        """The image file of each sample of a split."""
        return [self.all_files[row] for row in self.rows(split, seed=seed)]

    @cached_property
    def all_files(self) -> list[Path]:
        """The image file of every row."""
        names, present = self._written.column(self.file), not self.judged_only
        return files_inside(Path(self.path), names, self.titles, present=present)

    @cached_property
    def items(self) -> list[EncodedImage]:
        """The image of every row, identified by path, size and time of modification."""
        return file_items(self.all_files, self.titles, present=not self.judged_only)

    @cached_property
    def titles(self) -> list[str]:
        """The name of every image in messages."""
        names = self._written.column(self.file)
        if self.labels is None:
            return [os.path.join(self.path, name) for name in names]
        rows = zip(self._written.where, names, strict=True)
        return [f"{where}: {name or 'no file'}" for where, name in rows]

    def _labels_file(self) -> Path:
        given = Path(self.labels or "")
        beside = Path(self.path) / given
        if not given.exists() and not beside.exists():
            both = f"{given}" if beside == given else f"{given}, nor {beside}"
            raise CrossbiasError(f"there is no table of labels {both}; check --labels")
        if given.exists() and beside.exists() and not filecmp.cmp(given, beside, shallow=False):
            raise CrossbiasError(
                f"there are two tables of labels that differ, {given} in the working folder and "
                f"{beside}; name the one that is meant: --labels "
                f"{shlex.quote(str(given.absolute()))} or --labels {shlex.quote(str(beside))}"
            )
        return given if given.exists() else beside

    def _listed(self) -> LabelTable:
        """The table that a folder for each class amounts to."""
        found = [Path(name) for name in sorted(_files(self.path))]
        first = {file.parts[0] for file in found}
        trains = self.judged_only or bool(first & {"train", "training"})
        by_split = trains and first <= SPLIT_NAMES.keys()
        names = (SPLIT_COLUMN, "class") if by_split else ("class",)
        for file in found:
            if len(file.parts) <= len(names):
                raise CrossbiasError(
                    f"{self.path}: {file} is not in a folder of a class; pass the table of labels "
                    f"(--labels), or arrange the images as {'/'.join(names).upper()}/IMAGE"
                )
        columns = {name: [file.parts[at] for file in found] for at, name in enumerate(names)}
        files = [file.as_posix() for file in found]
        if not files:
            raise CrossbiasError(f"{self.path} has no files in it; name the folder of your images")
        classes = set(columns["class"])
        if len(classes) < 2 and self.target == "class" and not self.judged_only:
            raise CrossbiasError(
                f"all images of {self.path} are in one folder, {classes.pop()!r}, and so of one "
                f"class; pass the table of labels (--labels), or make a folder for each class"
            )
        return LabelTable(self.path, {self.file: files} | columns, files)


def _files(top: str) -> Iterator[str]:
    """All files below a folder except hidden ones, relative to it."""
    for folder, inner, files in os.walk(top):
        inner[:] = [name for name in inner if not name.startswith(".")]
        for name in inner:
            if os.path.islink(os.path.join(folder, name)):
                raise CrossbiasError(
                    f"{os.path.join(folder, name)} is a link to a folder; copy the images there"
                )
        for name in files:
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), top)
