"""Columns as people have them (arrays, lists, tensors, data frames), read and checked."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.formatting import first_few
from crossbias.parameters import closest
from crossbias.types import UNKNOWN

Column = ArrayLike | Sequence[Any]
"""One value for each sample: an array, a sequence, a tensor, or a column of a data frame."""

LARGEST_NUMBER: Final = 99_999
"""Largest number of a class or a value; a larger one is an identifier, which should be text."""

_TOLERANCE: Final = 0.01  # how far from 1 a row of probabilities may sum to: half precision


class LabelColumn(NamedTuple):
    """A column as numbers, ``UNKNOWN`` where a value is missing, and the names they stand for."""

    numbers: NDArray[np.int64]
    names: tuple[str, ...] | None  # sorted; None where the column itself holds numbers

    @property
    def values(self) -> tuple[str, ...]:
        """The names, or the numbers from 0 as text."""
        numbers = range(int(self.numbers.max(initial=UNKNOWN)) + 1)
        return tuple(map(str, numbers)) if self.names is None else self.names


def label_column(what: str, column: Column) -> LabelColumn:
    """Read a column of whole numbers or of names; ``what`` is its name in messages.

    >>> label_column("attribute 'place'", ["sofa", None, "lawn"])
    LabelColumn(numbers=array([ 1, -1,  0]), names=('lawn', 'sofa'))
    """
    array = as_array(column)
    if array.ndim != 1:
        raise CrossbiasError(
            f"{what} has the shape {array.shape}; pass one value for each sample, (n,)"
        )
    distinct, place = _distinct(array)
    cells = [_cell(what, value) for value in distinct]
    names = None
    if any(isinstance(cell, str) for cell in cells):
        names = tuple(sorted({str(cell) for cell in cells if cell is not None}))
        places = {name: place for place, name in enumerate(names)}
        cells = [None if cell is None else places[str(cell)] for cell in cells]
    numbers = [UNKNOWN if cell is None else cell for cell in cells]
    return LabelColumn(np.array(numbers, dtype=np.int64)[place], names)


def _distinct(array: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values of a column, and the place of each sample's among them, (n,)."""
    if array.dtype.kind in "biuf":
        values, place = np.unique(array, return_inverse=True)
        return values.tolist(), place
    places: dict[Any, int] = {}
    found = [places.setdefault(value, len(places)) for value in array.tolist()]
    return list(places), np.array(found, dtype=np.int64)


def as_array(column: Column) -> NDArray[Any]:
    """The column in memory, its values as they are."""
    if isinstance(column, Tensor):
        column = column.detach().cpu()
        column = (column.double() if column.is_floating_point() else column).numpy()
    # Left to itself, numpy turns a NaN among names into the text "nan".
    return np.asarray(column) if hasattr(column, "__array__") else np.array(column, dtype=object)


def checked_probabilities(matrix: NDArray[Any], what: str = "prediction") -> NDArray[np.float64]:
    """A matrix whose rows are probabilities of the classes; ``what`` is its name in messages."""
    try:
        matrix = matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise CrossbiasError(
            f"{what} is a matrix, but not of numbers ({error}); pass probabilities"
        ) from error
    sums = matrix.sum(1)
    wrong = ~((matrix >= 0) & (matrix <= 1)).all(1) | (abs(sums - 1) > _TOLERANCE)  # NaN is wrong
    if wrong.any():
        row = int(wrong.argmax())
        raise CrossbiasError(
            f"{what} has {listed(f'{p:.4g}' for p in matrix[row])} at index {row}, with the "
            f"sum {sums[row]:.4g}; pass probabilities from 0 to 1 that sum to 1, such as the "
            f"softmax of a network's logits"
        )
    return matrix


def checked_weights(what: str, column: Any) -> NDArray[np.float64]:
    """How much each sample counts; ``what`` is the column's name in messages."""
    try:
        weights = np.array(as_array(column), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CrossbiasError(f"{what} does not hold numbers ({error}); pass weights") from error
    wrong = ~((weights > 0) & np.isfinite(weights))  # NaN is wrong
    if wrong.any():
        row = int(wrong.argmax())
        raise CrossbiasError(
            f"{what} is {weights[row]:g} in row {row + 1}; weights are above 0: leave out rows "
            f"that do not count"
        )
    return weights


def named_columns(table: Any) -> dict[str, Any]:
    """The columns of a mapping, or of a data frame, which has columns and gives each by its name.

    >>> named_columns({"sex": ["f", "m"]})
    {'sex': ['f', 'm']}
    """
    return {str(name): table[name] for name in getattr(table, "columns", table)}


def places_of(
    names: Iterable[Any], known: Sequence[str], *, what: str, kind: str, remedy: str
) -> list[int]:
    """The place of each name among the known ones.

    The message about another one says ``what`` holds the names, of which ``kind`` the known ones
    are, and the remedy.
    """
    places = {name: place for place, name in enumerate(known)}
    found = [str(name) for name in names]
    for name in found:
        if name not in places:
            raise CrossbiasError(
                f"{what} holds {name!r}{closest(name, known)}, which is none of the {kind} "
                f"({listed(known)}); {remedy}"
            )
    return [places[name] for name in found]


def listed(names: Iterable[str]) -> str:
    """Names for a message, not too many."""
    return ", ".join(first_few(list(names)))


def _cell(what: str, value: Any) -> int | str | None:
    """A name, a whole number, or None where the value is missing."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, str):
        return value or None
    # The last two are what pandas has for a missing value.
    if value is None or str(value) in ("nan", "<NA>", "NaT"):
        return None
    if not isinstance(value, (bool, int, float)):
        return str(value)
    if value % 1 or not UNKNOWN <= value <= LARGEST_NUMBER:
        raise CrossbiasError(
            f"{what} holds {value}; write classes and values as text or as whole numbers from 0 "
            f"to {LARGEST_NUMBER}, and probabilities as an (n, classes) matrix"
        )
    return int(value)
