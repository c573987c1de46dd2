"""What a model answers: a column of classes or of probabilities, or a column for each class."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossbias.answers.columns_of_answers import Cells, encoded_labels, numbers_of
from crossbias.answers.reading import AnswerTable
from crossbias.data.own.table import EncodedColumn, number_in
from crossbias.errors import CrossbiasError
from crossbias.parameters import closest, unknown
from crossbias.types import UNKNOWN
from crossbias.verify.given_columns import checked_probabilities, listed


class ModelAnswers(NamedTuple):
    """What one model answers to each sample."""

    classes: Tensor  # (n,) class numbers
    probabilities: Tensor | None  # (n, classes); None where the table has classes only

    def at(self, rows: Tensor) -> "ModelAnswers":
        """The answers to some of the samples, or to all in another order."""
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return ModelAnswers(self.classes[rows], probabilities)


def as_classes(what: str, column: EncodedColumn, names: Sequence[str]) -> Tensor:
    """The class number of each row, (n,)."""
    missing = column.numbers == UNKNOWN
    if missing.any():
        raise CrossbiasError(
            f"{what} is empty in row {int(missing.int().argmax()) + 1}; leave out rows without it"
        )
    places = {name: place for place, name in enumerate(names)}
    for number, value in enumerate(column.values):
        if value not in places:
            row = int((column.numbers == number).int().argmax()) + 1
            raise CrossbiasError(
                f"{what} is {value!r} in row {row}{closest(value, names)}, which is none of the "
                f"classes ({listed(names)}); correct it, or name all classes with --classes"
            )
    return torch.tensor([places[value] for value in column.values])[column.numbers]


def read_answers(
    table: AnswerTable, entry: str, names: tuple[str, ...], positive: str | None
) -> ModelAnswers:
    """The answers in one column, or in one column for each class."""
    columns = _probability_columns(table, entry, names)
    if columns is not None:
        matrix = np.stack([numbers_of(f"{c} of {table.name}", table.cells(c)) for c in columns], 1)
        checked = checked_probabilities(matrix, f"{entry} of {table.name}")
        probabilities = torch.from_numpy(checked)
        return ModelAnswers(probabilities.argmax(1), probabilities)
    what, cells = f"{entry} of {table.name}", table.cells(entry)
    numbers = _probabilities_in(what, cells, names)
    if numbers is None:
        return ModelAnswers(as_classes(what, encoded_labels(what, cells), names), None)
    probabilities = _of_positive(what, numbers, names, positive)
    return ModelAnswers(probabilities.argmax(1), probabilities)


def _probability_columns(
    table: AnswerTable, entry: str, names: tuple[str, ...]
) -> list[str] | None:
    """The columns of the classes' probabilities, in their order; None for a single column."""
    if entry in table.columns:
        return None
    if "*" in entry:
        return [entry.replace("*", name) for name in names]
    columns = [part.strip() for part in entry.split(",")]
    if len(columns) == 1:
        return None
    if len(columns) != len(names):
        raise CrossbiasError(
            f"{entry} has {len(columns)} columns of probabilities, but the classes are "
            f"{listed(names)}; name one column for each class, in this order, or give another "
            f"order with --classes"
        )
    return columns


def _probabilities_in(
    what: str, cells: Cells, names: tuple[str, ...]
) -> NDArray[np.float64] | None:
    """The numbers of a column; None where it holds classes."""
    try:
        numbers = numbers_of(what, cells)
    except CrossbiasError:
        return None
    known = [number for number in map(number_in, names) if number is not None]
    of_classes = len(known) == len(names) and np.isin(numbers[~np.isnan(numbers)], known).all()
    return None if of_classes else numbers


def _of_positive(
    what: str, numbers: NDArray[np.float64], names: tuple[str, ...], positive: str | None
) -> Tensor:
    """The (n, 2) probabilities, from those of the positive class."""
    wrong = ~((numbers >= 0) & (numbers <= 1))  # NaN is wrong
    if wrong.any():
        row = int(wrong.argmax())
        if np.isnan(numbers[row]):
            raise CrossbiasError(f"{what} has no number in row {row + 1}; give every row a value")
        raise CrossbiasError(
            f"{what} is {numbers[row]:g} in row {row + 1}, which is neither a class "
            f"({listed(names)}) nor a probability from 0 to 1"
        )
    if len(names) != 2 or positive is None:
        remedy = (
            f"name the class whose probability it is: --positive (one of {listed(names)})"
            if len(names) == 2
            else f"for {len(names)} classes give one column for each: --prediction 'p_*'"
        )
        raise CrossbiasError(f"{what} holds probabilities, not classes; {remedy}")
    if positive not in names:
        raise unknown("there is no class", positive, names, "the classes are")
    found = torch.tensor(numbers)
    return torch.stack([found, 1 - found] if names[0] == positive else [1 - found, found], 1)
