"""Columns of a table of answers: labels as numbers and names, probabilities as numbers."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crossbias.data.own.table import EncodedColumn, as_text, is_missing, number_in
from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify.given_columns import as_array

Cells = Any
"""The cells of a column: a sequence, a column of a data frame, a tensor, or an Arrow array."""


def encoded_texts(cells: Cells) -> EncodedColumn:
    """The cells by their texts as they are; names are in the order in which they occur.

    >>> encoded_texts(["007", "7", None, "007"])
    EncodedColumn(numbers=tensor([ 0,  1, -1,  0]), values=('007', '7'))
    """
    numbers, distinct = _distinct(cells)
    texts = [as_text(value) for value in distinct]
    return _renumbered(numbers, ["" if is_missing(text) else text for text in texts])


def encoded_labels(what: str, cells: Cells) -> EncodedColumn:
    """A column of classes or values: numbers sorted by size, or texts alphabetically.

    Args:
        what: The column in messages.
        cells: Its cells; 1 and 1.0 are the same number.

    Raises:
        CrossbiasError: Some cells are numbers and some are texts.

    >>> encoded_labels("stage", ["10", "9.0", "", "9"])
    EncodedColumn(numbers=tensor([ 1,  0, -1,  0]), values=('9', '10'))
    """
    column = encoded_texts(cells)
    read = [number_in(text) for text in column.values]
    texts = [text for text, number in zip(column.values, read, strict=True) if number is None]
    if texts and len(texts) < len(read):
        _refuse_mixed(what, column, texts)
    named = list(column.values) if texts else [str(number) for number in read]
    order = sorted(set(named)) if texts else sorted(set(named), key=float)
    renamed = _renumbered(column.numbers.numpy(), named)
    places = {name: place for place, name in enumerate(order)}
    moved = torch.tensor([places[name] for name in renamed.values] + [UNKNOWN])
    return EncodedColumn(moved[renamed.numbers], tuple(order))


def identities(what: str, cells: Cells) -> tuple[NDArray[np.int64], list[str]]:
    """The number of each row's identifier, (n,), and the identifiers, with no word for missing.

    Raises:
        CrossbiasError: A row has none.
    """
    numbers, distinct = _distinct(cells)
    for place, value in enumerate(distinct):
        if (
            value is None
            or value in ("", "nan")
            or (isinstance(value, float) and math.isnan(value))
        ):
            raise CrossbiasError(
                f"{what} is empty in row {_first(numbers, place)}; give every row a value"
            )
    return numbers, list(map(str, distinct))


def numbers_of(what: str, cells: Cells) -> NDArray[np.float64]:
    """A column of numbers, NaN where a cell is empty.

    Raises:
        CrossbiasError: A cell is no number.
    """
    try:
        return _as_floats(cells)
    except (TypeError, ValueError):  # which Arrow's errors are too
        numbers, distinct = _distinct(cells)
    read = [_number(as_text(value)) for value in distinct]
    if None in read:
        wrong = read.index(None)
        raise CrossbiasError(
            f"{what} is {as_text(distinct[wrong])!r} in row {_first(numbers, wrong)}, which is not "
            f"a number; write numbers in all rows"
        )
    return np.array(read, dtype=np.float64)[numbers]


def binned(numbers: NDArray[np.float64], limits: Sequence[float]) -> EncodedColumn:
    """A column of numbers by the bin that each is in; a limit begins the bin above it.

    >>> binned(np.array([29, 30, np.nan, 75]), [30, 40])
    EncodedColumn(numbers=tensor([ 0,  1, -1,  2]), values=('<30', '30-40', '>=40'))
    """
    places = np.searchsorted(np.array(limits), numbers, side="right")
    places = np.where(np.isnan(numbers), UNKNOWN, places)
    between = (f"{low:g}-{high:g}" for low, high in pairwise(limits))
    values = (f"<{limits[0]:g}", *between, f">={limits[-1]:g}")
    return EncodedColumn(torch.from_numpy(places), values)


def _as_floats(cells: Cells) -> NDArray[np.float64]:
    if hasattr(cells, "combine_chunks"):
        return np.asarray(cells.cast("double").to_numpy())
    return as_array(cells).astype(np.float64)


def _number(text: str) -> float | None:
    if is_missing(text):
        return math.nan
    try:
        return float(text)
    except ValueError:
        return None


def _distinct(cells: Cells) -> tuple[NDArray[np.int64], list[Any]]:
    """The number of each cell among the distinct ones, (n,), and these."""
    if hasattr(cells, "combine_chunks"):  # Arrow
        coded = cells.combine_chunks().dictionary_encode(null_encoding="encode")
        return coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()
    array = as_array(cells)
    if array.dtype.kind in "biuf":
        values, numbers = np.unique(array, return_inverse=True)
        return numbers.astype(np.int64), values.tolist()
    places: dict[Any, int] = {}
    listed = array.tolist()
    found = [places.setdefault(cell, len(places)) for cell in listed]
    return np.array(found, dtype=np.int64), list(places)


def _renumbered(numbers: NDArray[np.int64], names: Sequence[str]) -> EncodedColumn:
    """The column with equal names merged; a cell without a name is unknown."""
    places: dict[str, int] = {}
    moved = [places.setdefault(name, len(places)) if name else UNKNOWN for name in names]
    table = torch.tensor([*moved, UNKNOWN])  # the last is what UNKNOWN stands for itself
    return EncodedColumn(table[torch.from_numpy(numbers)], tuple(places))


def _refuse_mixed(what: str, column: EncodedColumn, texts: list[str]) -> None:
    """Raise an error that names a cell of each kind."""
    first = [int((column.numbers == column.values.index(text)).int().argmax()) for text in texts]
    row, text = min(zip(first, texts, strict=True))
    number = next(value for value in column.values if value not in set(texts))
    raise CrossbiasError(
        f"{what} is {text!r} in row {row + 1}, but other rows have numbers such as {number!r}; "
        f"write numbers or text in all rows, and nothing where the value is unknown"
    )


def _first(numbers: NDArray[np.int64], wanted: int) -> int:
    """The first row with a number, counted from 1."""
    return int((numbers == wanted).argmax()) + 1
