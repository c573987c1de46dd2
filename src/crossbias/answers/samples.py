"""The samples of a table with what each model answers to them, read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from crossbias.answers.columns_of_answers import (
    binned,
    encoded_labels,
    identities,
    numbers_of,
)
from crossbias.answers.intersections import Attribute, with_intersections
from crossbias.answers.model_answers import ModelAnswers, as_classes, read_answers
from crossbias.answers.reading import AnswerTable
from crossbias.answers.same_samples import order_of, rows_by_identifier
from crossbias.data.own.columns import chosen_columns
from crossbias.data.own.table import EncodedColumn, LabelTable
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify.given_columns import checked_weights, listed

BETWEEN: Final = " & "  # joins the columns in the name of an intersection


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Samples of one split, what is known about each, and the answers of every model."""

    classes: tuple[str, ...]
    target: Tensor  # (n,)
    models: Mapping[str, ModelAnswers]
    attributes: Mapping[Attribute, EncodedColumn] = field(default_factory=dict)
    cluster: Tensor | None = None  # (n,)
    weight: Tensor | None = None  # (n,)

    def __len__(self) -> int:
        return len(self.target)

    def by_cluster(self) -> "Samples":
        """The samples with those of a cluster side by side.

        Sums over clusters are then taken along the memory. With millions of clusters in any order,
        they would spend most of their time on waiting for it.
        """
        return self if self.cluster is None else self.at(self.cluster.argsort(stable=True))

    def at(self, rows: Tensor) -> "Samples":
        """The samples at ``rows``: (n,) bool, where it is true, or (m,) int64 of their numbers."""
        return replace(
            self,
            target=self.target[rows],
            models={name: model.at(rows) for name, model in self.models.items()},
            attributes={
                name: EncodedColumn(column.numbers[rows], column.values)
                for name, column in self.attributes.items()
            },
            cluster=None if self.cluster is None else self.cluster[rows],
            weight=None if self.weight is None else self.weight[rows],
        )


@dataclass(frozen=True, kw_only=True)
class NamedColumns:
    """Which columns of a table hold what.

    Args:
        target: The true class.
        prediction: One entry for each model: a column of classes or of probabilities of the
            positive class, several columns joined by commas in the order of the classes, or a
            pattern such as ``p_*``, whose star stands for each class.
        bias: One entry for each attribute; columns joined by commas are judged together, and
            ``age:30,40`` bins a column of numbers.
        id: Identifiers of the samples.
        cluster: Which samples belong together.
        weight: How much each sample counts.
        split: The split of each sample.
    """

    target: str
    prediction: tuple[str, ...]
    bias: tuple[str, ...] = ()
    id: str | None = None
    cluster: str | None = None
    weight: str | None = None
    split: str | None = None

    def attribute_names(self, table: AnswerTable) -> list[Attribute]:
        """The columns of each attribute, binned ones with their limits, as in ``age:30,40``."""
        names = LabelTable(table.name, dict.fromkeys(table.columns, ()), ())
        found = [tuple(dict.fromkeys(map(str, chosen_columns(text, names)))) for text in self.bias]
        return list(dict.fromkeys(found))


def samples_of(
    tables: Sequence[AnswerTable],
    named: NamedColumns,
    *,
    intersections: int = 1,
    classes: Sequence[str] | None = None,
    positive: str | None = None,
) -> Samples:
    """All samples of one table or of several, whose rows are matched by their identifiers.

    Attributes, clusters, weights and splits are those of the first table.

    Raises:
        CrossbiasError: A column is missing or holds what it should not, or the tables are not
            about the same samples.
    """
    first = tables[0]
    if len(tables) > 1 and named.id is None:
        raise CrossbiasError(
            f"{len(tables)} tables are matched by the identifier of each sample; name its column: "
            f"--id"
        )
    identifiers = None if named.id is None else rows_by_identifier(first, named.id)
    truth = encoded_labels(f"{named.target} of {first.name}", first.cells(named.target))
    names = _class_names(first, named.target, truth, classes)
    models: dict[str, ModelAnswers] = {}
    for table in tables:
        order = None
        if identifiers is not None and table is not first:
            order = order_of(
                first, table, identifier=str(named.id), target=named.target,
                identifiers=identifiers, truth=truth,
            )  # fmt: skip
        for entry in named.prediction:
            label = _model_name(table, entry, tables, named)
            if label in models:
                raise CrossbiasError(f"the model {label} is named twice; name it once")
            answers = read_answers(table, entry, names, positive)
            models[label] = answers if order is None else answers.at(order)
    attributes = with_intersections(named.attribute_names(first), intersections)
    single = {part for parts in attributes for part in parts}
    columns = {name: encoded_attribute(first, name) for name in single}
    return Samples(
        classes=names,
        target=as_classes(f"{named.target} of {first.name}", truth, names),
        models=models,
        attributes={parts: joined([columns[part] for part in parts]) for parts in attributes},
        cluster=None if named.cluster is None else _clusters(first, named.cluster),
        weight=None if named.weight is None else _weights(first, named.weight),
    )


def encoded_attribute(table: AnswerTable, name: str) -> EncodedColumn:
    """A column of a table, or its bins where the name has their limits, as in ``age:30,40``."""
    column, _, limits = name.rpartition(":")
    if name in table.columns or not column:
        return encoded_labels(f"{name} of {table.name}", table.cells(name))
    numbers = numbers_of(f"{column} of {table.name}", table.cells(column))
    return binned(numbers, [float(limit) for limit in limits.split(",")])


def joined(parts: Sequence[EncodedColumn]) -> EncodedColumn:
    """Columns as one, with a value for every combination that occurs.

    >>> sex, site = (EncodedColumn(torch.tensor(numbers), names) for numbers, names in (
    ...     ([0, 1, 1, -1], ("f", "m")), ([1, 0, 1, 0], ("A", "B"))))
    >>> joined([sex, site])
    EncodedColumn(numbers=tensor([ 0,  1,  2, -1]), values=('f & B', 'm & A', 'm & B'))
    """
    if len(parts) == 1:
        return parts[0]
    code = torch.zeros_like(parts[0].numbers)
    known = torch.ones_like(code, dtype=torch.bool)
    for part in parts:
        code = code * len(part.values) + part.numbers.clamp(min=0)
        known &= part.numbers != UNKNOWN
    present, place = torch.unique(code[known], return_inverse=True)
    numbers = torch.full_like(code, UNKNOWN)
    numbers[known] = place
    return EncodedColumn(numbers, tuple(_name_of(int(each), parts) for each in present))


def _name_of(code: int, parts: Sequence[EncodedColumn]) -> str:
    names: list[str] = []
    for part in reversed(parts):
        code, place = divmod(code, len(part.values))
        names.insert(0, part.values[place])
    return BETWEEN.join(names)


def _class_names(
    table: AnswerTable, target: str, truth: EncodedColumn, classes: Sequence[str] | None
) -> tuple[str, ...]:
    names = truth.values if classes is None else tuple(classes)
    if len(set(names)) < len(names):
        raise CrossbiasError(f"--classes names one twice ({listed(names)}); name each once")
    if len(names) < 2:
        raise CrossbiasError(
            f"{target} of {table.name} has {len(names)} class ({listed(names) or 'none'}); a "
            f"classifier needs two or more: name all of them with --classes"
        )
    return names


def _model_name(
    table: AnswerTable, entry: str, tables: Sequence[AnswerTable], named: NamedColumns
) -> str:
    """The column for models in one table, the file for models in several, or both."""
    if table.model is not None:
        return table.model
    if len(tables) == 1:
        return entry
    return table.name if len(named.prediction) == 1 else f"{table.name}: {entry}"


def _clusters(table: AnswerTable, column: str) -> Tensor:
    return torch.from_numpy(identities(f"{column} of {table.name}", table.cells(column))[0])


def _weights(table: AnswerTable, column: str) -> Tensor:
    what = f"{column} of {table.name}"
    return torch.from_numpy(checked_weights(what, numbers_of(what, table.cells(column))))
