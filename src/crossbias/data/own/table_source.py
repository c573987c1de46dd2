"""TableSource: your own images with a table of labels, as the splits of a data set."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.decoding import IMAGENET_MEAN, IMAGENET_STD, Fit
from crossbias.data.own.labels import TableLabels, report_missing_conflicts, splits_of
from crossbias.data.own.table import LabelTable
from crossbias.data.source import Source, once
from crossbias.errors import CrossbiasError


class TableSource(Source):
    """A table of labels, and an image for each of its rows.

    Subclasses are dataclasses that declare the options below, which ``Folder`` documents, with
    their defaults. The order in which a subclass declares them goes into the record of a run.
    """

    network = "resnet18"

    path: str
    target: str | None
    bias: str | None
    attributes: tuple[str, ...]
    split_by: str
    validation: float
    test: float
    size: int
    fit: Literal["crop", "squash"]
    channels: Literal[1, 3]

    @cached_property
    @abstractmethod
    def table(self) -> LabelTable:
        """All rows of all splits."""

    @abstractmethod
    def images(self, rows: Sequence[int]) -> tuple[Tensor, str]:
        """Read the images of some rows of the table; also return their digest."""

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

    def make(self, split: str, *, root: Path | None, seed: int) -> BiasedDataset:
        """Read one split; the data is at ``path``, so ``root`` is not used."""
        rows = self.rows(split, seed=seed)
        data = self.assembled(split, rows, *self.images(rows))
        if split == "train" and data.bias:
            report_missing_conflicts(data)
        return data

    def assembled(self, split: str, rows: list[int], inputs: Tensor, digest: str) -> BiasedDataset:
        """Combine pixels and labels of some rows of the table into a data set."""
        labels, grey = self._labels, self.channels == 1
        return BiasedDataset(
            inputs=inputs,
            digest=digest,
            targets=labels.target.numbers[rows],
            classes=labels.target.values,
            attributes={name: column.numbers[rows] for name, column in labels.attributes.items()},
            values={name: column.values for name, column in labels.attributes.items()},
            bias=labels.bias,
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
        return Fit(self.size, self.fit, self.channels)

    @cached_property
    def _labels(self) -> TableLabels:
        if self.target is None:
            raise CrossbiasError(
                f"{self.title} needs the column to predict: --target on the command line, target= "
                f"in Python; the columns of {self.table.name} are: {', '.join(self.table.columns)}"
            )
        return TableLabels.of(
            self.table, target=self.target, bias=self.bias, attributes=self.attributes,
            judged_only=self.judged_only,
        )  # fmt: skip

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
            self.table, self._labels, column=self.split_by, fractions=fractions, seed=seed,
            judged_only=self.judged_only,
        )  # fmt: skip
