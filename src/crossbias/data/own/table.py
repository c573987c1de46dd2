"""Tables of labels: named columns of text, and columns encoded as numbers."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown
from crossbias.types import UNKNOWN

_BETWEEN = " / "  # separates the values in the name of a combined value
_MISSING = frozenset({"", "nan", "na", "n/a", "#n/a", "<na>", "null"})  # not none: it is a finding


@dataclass(frozen=True)
class LabelTable:
    """Named columns of text."""

    name: str  # in messages: its path
    columns: Mapping[str, Sequence[str]]  # the cells; empty where a value is missing
    where: Sequence[str]  # the position of every row in messages, such as "labels.csv line 5"
    note: str = ""  # what a person should know about how it was read

    def column(self, name: str) -> Sequence[str]:
        """The cells of one column."""
        if name not in self.columns:
            raise unknown(f"{self.name} has no column", name, self.columns, "its columns are")
        return self.columns[name]

    def chosen(self, name: str, values: Sequence[str]) -> list[int]:
        """The position of each cell of a column in the list of allowed values."""
        numbers, cells = self.distinct(name)
        wrong = [place for place, cell in enumerate(cells) if cell not in values]
        if len(rows := np.flatnonzero(np.isin(numbers, wrong))):
            raise CrossbiasError(
                f"{self.where[int(rows[0])]}: {name} is {cells[numbers[rows[0]]]!r}; "
                f"it must be one of {', '.join(values)}"
            )
        places = np.array([values.index(cell) for cell in cells], dtype=np.int64)
        chosen: list[int] = places[numbers].tolist()
        return chosen

    def encoded(self, name: str) -> "EncodedColumn":
        """Encode a column; its values are sorted, numbers by size and text alphabetically."""
        rows, distinct = self.distinct(name)
        cells = ["" if is_missing(cell) else cell for cell in distinct]
        known = [cell for cell in cells if cell]
        numbers = {cell: number_in(cell) for cell in known}
        texts = [cell for cell in known if numbers[cell] is None]
        if texts and len(texts) < len(known):
            self._refuse_mixed(name, rows, cells)
        if texts:
            return EncodedColumn.of(cells, tuple(sorted(set(texts)))).taken(rows)
        ordered = sorted({number for number in numbers.values() if number is not None})
        named = [str(numbers[cell]) if cell else "" for cell in cells]  # 1 and 1.0 are the same
        return EncodedColumn.of(named, tuple(str(number) for number in ordered)).taken(rows)

    def binned(self, name: str, limits: Sequence[float]) -> "EncodedColumn":
        """Encode a column of numbers by the bin that each is in; a limit begins the bin above it.

        >>> LabelTable("", {"age": ["29", "30", "75"]}, ["1", "2", "3"]).binned("age", (30, 40))
        EncodedColumn(numbers=tensor([0, 1, 2]), values=('<30', '30-40', '>=40'))
        """
        rows, cells = self.distinct(name)
        numbers = [number_in(cell) for cell in cells]
        wrong = [
            at for at, cell in enumerate(cells) if numbers[at] is None and not is_missing(cell)
        ]
        if len(found := np.flatnonzero(np.isin(rows, wrong))):
            raise CrossbiasError(
                f"{self.where[int(found[0])]}: {name} is {cells[rows[found[0]]]!r}, which is not a "
                f"number and has no bin; write a number, or nothing where it is unknown"
            )
        places = [UNKNOWN if number is None else bisect_right(limits, number) for number in numbers]
        between = (f"{low}-{high}" for low, high in pairwise(limits))
        values = (f"<{limits[0]}", *between, f">={limits[-1]}")
        return EncodedColumn(torch.tensor(places, dtype=torch.int64), values).taken(rows)

    def distinct(self, name: str) -> tuple[np.ndarray, list[str]]:
        """The number of each cell of a column among the distinct ones, (n,), and these."""
        cells = self.column(name)
        given = getattr(cells, "distinct", None)  # which a column of Arrow knows
        return distinct_of(cells) if given is None else given()

    def counts(self, name: str) -> dict[str, int]:
        """How many rows have each cell of a column."""
        numbers, cells = self.distinct(name)
        counts = np.bincount(numbers, minlength=len(cells)).tolist()
        return {cell: count for cell, count in zip(cells, counts, strict=True) if count}

    def _refuse_mixed(self, name: str, rows: np.ndarray, cells: list[str]) -> None:
        """Raise an error that names the first cell of the rarer kind."""
        kinds = np.array([0 if not cell else 1 + (number_in(cell) is None) for cell in cells])[rows]
        counts = np.bincount(kinds, minlength=3)
        rare, usual, kind = (1, 2, "text") if counts[1] < counts[2] else (2, 1, "numbers")
        first, other = (int((kinds == wanted).argmax()) for wanted in (rare, usual))
        raise CrossbiasError(
            f"{self.where[first]}: {name} is {cells[rows[first]]!r}, but other rows have "
            f"{kind} such as {cells[rows[other]]!r}; write numbers or text in all rows, and "
            f"nothing where the value is unknown"
        )


@dataclass(frozen=True)
class EncodedColumn:
    """A column as numbers."""

    numbers: Tensor  # (n,) int64, UNKNOWN where the value is missing
    values: tuple[str, ...]  # their names

    @classmethod
    def of(cls, cells: Sequence[str], values: tuple[str, ...]) -> "EncodedColumn":
        """Encode cells by their position in ``values``; all other cells are unknown."""
        places = {value: place for place, value in enumerate(values)}
        numbers = [places.get(cell, UNKNOWN) for cell in cells]
        return cls(torch.tensor(numbers, dtype=torch.int64), values)

    def taken(self, rows: np.ndarray) -> "EncodedColumn":
        """The column with these of its rows, any number of times."""
        return EncodedColumn(self.numbers[torch.from_numpy(rows)], self.values)

    @classmethod
    def combined(cls, parts: Sequence["EncodedColumn"]) -> "EncodedColumn":
        """Combine several columns into one, with a value for every combination that occurs."""
        if len(parts) == 1:
            return parts[0]
        keys, numbers = torch.unique(
            torch.stack([part.numbers for part in parts], 1), dim=0, return_inverse=True
        )  # sorted by the first column, then by the second, and so on
        known = (keys != UNKNOWN).all(1)
        values = [
            _BETWEEN.join(part.values[at] for part, at in zip(parts, key, strict=True))
            for key in keys[known].tolist()
        ]
        places = torch.where(known, known.cumsum(0) - 1, UNKNOWN)
        return cls(places[numbers], tuple(values))


def distinct_of(cells: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """The number of each cell among the distinct ones, (n,) int64, and these in order.

    >>> distinct_of(["b", "a", "b"])
    (array([0, 1, 0]), ['b', 'a'])
    """
    places: dict[str, int] = {}
    numbers = (places.setdefault(cell, len(places)) for cell in cells)
    return np.fromiter(numbers, np.int64, len(cells)), list(places)


def as_text(value: object) -> str:
    """A cell as a CSV file would have it; whole numbers have no decimal point.

    >>> as_text(2.0), as_text(0.5), as_text(True), as_text(None), as_text("a ")
    ('2', '0.5', 'True', '', 'a')
    """
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def is_missing(cell: str) -> bool:
    """Whether the value of a cell is unknown: it is empty, or a common word for that.

    >>> [is_missing(cell) for cell in ("", "NaN", "NA", "n/a", "none")]
    [True, True, True, True, False]
    """
    return cell.lower() in _MISSING


def number_in(cell: str) -> int | float | None:
    """The number that a cell holds, if it holds one."""
    try:
        return int(cell)
    except ValueError:
        pass
    try:
        number = float(cell)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number
