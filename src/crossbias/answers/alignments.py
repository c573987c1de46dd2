"""Which values of an attribute go along with which class in training: given, or counted."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from crossbias.answers.columns_of_answers import encoded_labels
from crossbias.answers.intersections import Attribute
from crossbias.answers.reading import AnswerTable
from crossbias.answers.samples import Samples, encoded_attribute, joined
from crossbias.data.own.table import EncodedColumn
from crossbias.errors import CrossbiasError
from crossbias.verify import Alignment
from crossbias.verify.given_columns import places_of


def known_alignments(
    samples: Samples,
    *,
    aligned: Mapping[str, Any] | None,
    train: Tensor | None,
    training: AnswerTable | None,
    target: str,
) -> dict[Attribute, Tensor]:
    """For each attribute of which it is known, the (classes, values) table of what goes along.

    Args:
        samples: All samples of the table.
        aligned: For each class, its value or values of the first attribute.
        train: ``(n,)`` bool, which of the samples are training samples; None where none is.
        training: A table of training samples.
        target: Its column of classes.

    Raises:
        CrossbiasError: It is given in two ways, or names what does not exist.
    """
    if training is not None and aligned is not None:
        raise CrossbiasError("what goes along with what is given twice; leave --aligned out")
    if training is not None:
        return _counted_in(training, target, samples)
    if aligned is not None:
        return _given(aligned, samples)
    if train is not None:
        return {
            attribute: aligned_table(
                samples.target[train],
                EncodedColumn(column.numbers[train], column.values),
                len(samples.classes),
            )
            for attribute, column in samples.attributes.items()
        }
    return {}


def aligned_table(target: Tensor, column: EncodedColumn, classes: int) -> Tensor:
    """Which values go along with which class among training samples, (classes, values) bool.

    A pair is aligned if it has more samples than it would if class and value were independent.

    >>> column = EncodedColumn(torch.tensor([0, 0, 1, 1]), ("A", "B"))
    >>> aligned_table(torch.tensor([0, 0, 0, 1]), column, 2).tolist()
    [[True, False], [False, True]]
    """
    known = column.numbers >= 0
    code = target[known] * len(column.values) + column.numbers[known]
    counts = torch.bincount(code, minlength=classes * len(column.values))
    table = counts.view(classes, -1).double()
    return table > table.sum(1, keepdim=True) * table.sum(0) / max(float(table.sum()), 1.0)


def _counted_in(table: AnswerTable, target: str, samples: Samples) -> dict[Attribute, Tensor]:
    truth = encoded_labels(f"{target} of {table.name}", table.cells(target))
    places = {name: place for place, name in enumerate(samples.classes)}
    numbers = torch.tensor([*(places.get(name, -1) for name in truth.values), -1])[truth.numbers]
    known = numbers >= 0
    found = {}
    for attribute, column in samples.attributes.items():
        own = joined([encoded_attribute(table, part) for part in attribute])
        of_known = EncodedColumn(own.numbers[known], own.values)
        counted = aligned_table(numbers[known], of_known, len(samples.classes))
        found[attribute] = Alignment(own.values, counted).of(column.values)
    return found


def _given(aligned: Mapping[str, Any], samples: Samples) -> dict[Attribute, Tensor]:
    if not samples.attributes:
        raise CrossbiasError(
            "--aligned is about the values of an attribute, and none is named; name it: --bias"
        )
    attribute, column = next(iter(samples.attributes.items()))
    table = torch.zeros(len(samples.classes), len(column.values), dtype=torch.bool)
    rows = places_of(
        aligned, samples.classes, what="--aligned", kind="classes", remedy="correct it"
    )
    for row, entry in zip(rows, aligned.values(), strict=True):
        several = entry if isinstance(entry, Iterable) and not isinstance(entry, str) else [entry]
        table[row, places_of(
            several, column.values, what="--aligned", kind=f"values of {' & '.join(attribute)}",
            remedy="correct it",
        )] = True  # fmt: skip
    return {attribute: table}
