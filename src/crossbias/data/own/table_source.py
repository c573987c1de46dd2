"""TableSource: your own images with a table of labels, as the splits of a data set."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.cache import Store
from crossbias.data.images.decoding import IMAGENET_MEAN, IMAGENET_STD, Fit, read_items
from crossbias.data.images.depth import WideImages, wide_images
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.lazy_rows import LazyRows
from crossbias.data.own.columns import crowded_note
from crossbias.data.own.labels import (
    TableLabels,
    clusters_of,
    report_missing_conflicts,
    splits_of,
    torn_note,
)
from crossbias.data.own.spelling import alone_note, spelling_note
from crossbias.data.own.table import LabelTable
from crossbias.data.source import Source, once
from crossbias.errors import CrossbiasError
from crossbias.parameters import Interval

Bits = Annotated[int, Interval(8, 16)]


class TableSource(Source):
    """A table of labels, and an image for each of its rows.

    Subclasses are dataclasses that declare the options below, which ``Folder`` documents, with
    their defaults. The order in which a subclass declares them goes into the record of a run.
    """

    network = "resnet18"

    path: str
    target: str | None
    bias: str | None
    attributes: tuple[str, ...] | None
    split_by: str
    group_by: str | None
    cluster: str | None
    validation: float
    test: float
    size: int
    fit: Literal["crop", "squash"]
    channels: Literal[1, 3]
    depth: int | None
    store: Store

    @cached_property
    @abstractmethod
    def table(self) -> LabelTable:
        """All rows of all splits."""

    @cached_property
    @abstractmethod
    def items(self) -> Sequence[EncodedImage]:
        """The image of every row of the table, not decoded."""

    def images(self, rows: Sequence[int]) -> tuple[Tensor, str]:
        """Read the images of some rows from the cache; also return their digest."""
        items = LazyRows(self.items.__getitem__, rows)
        return read_items(items, self.fitted(), store=self.store, progress=self.progress)

    @property
    def title(self) -> str:
        """The name under which ``load`` finds this data again."""
        return f"{self.name}:{self.path}"

    @property
    def available_splits(self) -> tuple[str, ...]:
        """The splits in the table, or those that are drawn."""
        found = set(self._splits(0))
        first = [split for split in ("train", "validation") if split in found]
        return (*first, *sorted(found - set(first)))

    def options(self) -> dict[str, Any]:
        """The keywords of the constructor, without the path, which is part of the name."""
        return {name: value for name, value in super().options().items() if name != "path"}

    def recorded(self) -> dict[str, Any]:
        """The options with the depth in use: other images are later read as these are."""
        return self.options() | {"depth": self.used_depth}

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Read one split; the data is at ``path``, so ``root`` is not used."""
        rows = self.rows(split, seed=seed)
        self._tell(seed)
        data = self.assembled(split, rows, *self.images(rows))
        if split == "train" and data.bias:
            report_missing_conflicts(data)
        return data

    def assembled(self, split: str, rows: list[int], inputs: Tensor, digest: str) -> BiasedDataset:
        """Combine pixels and labels of some rows of the table into a data set."""
        labels, grey, cluster = self._labels, self.channels == 1, self.clustered_by
        return BiasedDataset(
            inputs=inputs,
            digest=digest,
            targets=labels.target.numbers[rows],
            classes=labels.target.values,
            attributes={name: column.numbers[rows] for name, column in labels.attributes.items()},
            values={name: column.values for name, column in labels.attributes.items()},
            bias=labels.bias,
            cluster=None if cluster is None else clusters_of(self.table, cluster)[rows],
            name=self.title,
            split=split,
            mean=(sum(IMAGENET_MEAN) / 3,) if grey else IMAGENET_MEAN,
            std=(sum(IMAGENET_STD) / 3,) if grey else IMAGENET_STD,
        )

    def rows(self, split: str, *, seed: int) -> list[int]:
        """The rows of the table that are in a split."""
        return [row for row, found in enumerate(self._splits(seed)) if found == split]

    def fitted(self) -> Fit:
        """How the images become pixels."""
        return Fit(self.size, self.fit, self.channels, self.used_depth or 16)

    @cached_property
    def used_depth(self) -> int | None:
        """The declared bits of 16-bit images, else those they use; None where there are none."""
        if self.depth is not None:
            return self.depth
        if found := self.wide.depth:
            self.progress.note(
                f"{self.wide}; they are read as {found} bits (--set data.depth={found})"
            )
        return found

    @cached_property
    def wide(self) -> WideImages:
        """The 16-bit images of all splits."""
        return wide_images(self.items, progress=self.progress)

    @cached_property
    def _labels(self) -> TableLabels:
        if self.target is None:
            raise CrossbiasError(
                f"{self.title} needs the column to predict: --target on the command line, target= "
                f"in Python; the columns of {self.table.name} are: {', '.join(self.table.columns)}"
            )
        return TableLabels.of(
            self.table,
            target=self.target,
            bias=self.bias,
            attributes=self.attributes,
            apart=self.apart,
            judged_only=self.judged_only,
        )

    @property
    def apart(self) -> list[str]:
        """Columns that are not about the images, which are attributes only if they are named."""
        return [self.split_by, *filter(None, [self.group_by, self.cluster])]

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Columns that nobody named and that have too many values, or one, for an attribute."""
        if self.attributes is not None:
            return ()
        used = {*self._labels.columns, *self.apart}
        return tuple(name for name in self.table.columns if name not in used)

    @property
    def clustered_by(self) -> str | None:
        """The column of samples that belong together, if there is one."""
        return self.cluster or self.group_by

    @property
    def notes(self) -> list[str]:
        """What a person should know about the table and how it was read."""
        labels = self._labels
        found = [self.table.note, spelling_note(self.table, labels.columns)]
        crowded = [crowded_note(str(self.target), labels.target, is_bias=False)]
        if labels.bias:
            bias = labels.attributes[labels.bias]
            crowded.append(crowded_note(labels.bias, bias, is_bias=True))
        found += [f"{self.table.name}: {note}" for note in crowded if note]
        together = dict.fromkeys(filter(None, [self.group_by, self.cluster]))
        found += [alone_note(self.table, name) for name in together]
        return [note for note in found if note]

    @once
    def _tell(self, seed: int) -> None:
        torn = self.cluster and torn_note(self.table, self._splits(seed), self.cluster)
        for note in (*self.notes, *filter(None, [torn])):
            self.progress.note(note)

    @once
    def _splits(self, seed: int) -> list[str]:
        """The split of every row of the table."""
        train = 1 - self.validation - self.test
        if train <= 0 and not self.judged_only:
            raise CrossbiasError(
                f"validation ({self.validation:g}) and test ({self.test:g}) leave nothing of "
                f"{self.title} for training; their sum must be below 1"
            )
        made = {"train": train, "validation": self.validation, "test": self.test}
        fractions = {name: fraction for name, fraction in made.items() if fraction}
        return splits_of(
            self.table,
            self._labels,
            column=self.split_by,
            fractions=fractions,
            seed=seed,
            group_by=self.group_by,
            judged_only=self.judged_only,
        )
