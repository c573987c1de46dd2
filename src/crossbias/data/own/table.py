"""Tables of labels: named columns of text, and columns encoded as numbers."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
        cells = self.column(name)
        for where, cell in zip(self.where, cells, strict=True):
            if cell not in values:
                raise CrossbiasError(
                    f"{where}: {name} is {cell!r}; it must be one of {', '.join(values)}"
                )
        return [values.index(cell) for cell in cells]

    def encoded(self, name: str) -> "EncodedColumn":
        """Encode a column; its values are sorted, numbers by size and text alphabetically."""
        cells = ["" if is_missing(cell) else cell for cell in self.column(name)]
        known = [cell for cell in cells if cell]
        numbers = {cell: number_in(cell) for cell in known}
        texts = [cell for cell in known if numbers[cell] is None]
        if texts and len(texts) < len(known):
            self._refuse_mixed(
                name, cells, texts, [cell for cell in known if numbers[cell] is not None]
            )
        if texts:
            return EncodedColumn.of(cells, tuple(sorted(set(texts))))
        ordered = sorted({number for number in numbers.values() if number is not None})
        named = [str(numbers[cell]) if cell else "" for cell in cells]  # 1 and 1.0 are the same
        return EncodedColumn.of(named, tuple(str(number) for number in ordered))

    def binned(self, name: str, limits: Sequence[float]) -> "EncodedColumn":
        """Encode a column of numbers by the bin that each is in; a limit begins the bin above it.

        >>> LabelTable("", {"age": ["29", "30", "75"]}, ["1", "2", "3"]).binned("age", (30, 40))
        EncodedColumn(numbers=tensor([0, 1, 2]), values=('<30', '30-40', '>=40'))
        """
        places = []
        for where, cell in zip(self.where, self.column(name), strict=True):
            number = number_in(cell)
            if number is None and not is_missing(cell):
                raise CrossbiasError(
                    f"{where}: {name} is {cell!r}, which is not a number and has no bin; write a "
                    f"number, or nothing where it is unknown"
                )
            places.append(UNKNOWN if number is None else bisect_right(limits, number))
        between = (f"{low}-{high}" for low, high in pairwise(limits))
        values = (f"<{limits[0]}", *between, f">={limits[-1]}")
        return EncodedColumn(torch.tensor(places), values)

    def _refuse_mixed(
        self, name: str, cells: list[str], texts: list[str], numbers: list[str]
    ) -> None:
        """Raise an error that names the first cell of the rarer kind."""
        rare, usual, kind = (texts, numbers, "numbers")
        if len(numbers) < len(texts):
            rare, usual, kind = (numbers, texts, "text")
        raise CrossbiasError(
            f"{self.where[cells.index(rare[0])]}: {name} is {rare[0]!r}, but other rows have "
            f"{kind} such as {usual[0]!r}; write numbers or text in all rows, and nothing where "
            f"the value is unknown"
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
        return cls(torch.tensor([places.get(cell, UNKNOWN) for cell in cells]), values)

    @classmethod
    def combined(cls, parts: Sequence["EncodedColumn"]) -> "EncodedColumn":
        """Combine several columns into one, with a value for every combination that occurs."""
        if len(parts) == 1:
            return parts[0]
        keys = list(zip(*(part.numbers.tolist() for part in parts), strict=True))
        known = sorted({key for key in keys if UNKNOWN not in key})
        number = {key: place for place, key in enumerate(known)}
        values = [
            _BETWEEN.join(part.values[at] for part, at in zip(parts, key, strict=True))
            for key in known
        ]
        return cls(torch.tensor([number.get(key, UNKNOWN) for key in keys]), tuple(values))


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
