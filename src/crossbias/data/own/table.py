"""Tables of labels: named columns of text, and columns encoded as numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown
from crossbias.types import UNKNOWN

_BETWEEN = " / "  # separates the values in the name of a combined value


@dataclass(frozen=True)
class LabelTable:
    """Named columns of text."""

    name: str  # in messages: its path
    columns: Mapping[str, Sequence[str]]  # the cells; empty where a value is missing
    where: Sequence[str]  # the position of every row in messages, such as "labels.csv line 5"

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
        numbers = {cell: _number(cell) for cell in known}
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

    def combined(self, names: Sequence[str]) -> "EncodedColumn":
        """Combine several columns into one, with a value for every combination that occurs."""
        parts = [self.encoded(name) for name in names]
        if len(parts) == 1:
            return parts[0]
        keys = list(zip(*(part.numbers.tolist() for part in parts), strict=True))
        known = sorted({key for key in keys if UNKNOWN not in key})
        number = {key: place for place, key in enumerate(known)}
        values = [
            _BETWEEN.join(part.values[at] for part, at in zip(parts, key, strict=True))
            for key in known
        ]
        return EncodedColumn(
            torch.tensor([number.get(key, UNKNOWN) for key in keys]), tuple(values)
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


def is_missing(cell: str) -> bool:
    """Whether the value of a cell is unknown: the cell is empty or ``nan``."""
    return not cell or cell.lower() == "nan"


def _number(cell: str) -> int | float | None:
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
