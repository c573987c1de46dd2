"""Columns of a table that stay in Arrow: cells are texts only while somebody looks at them."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from crossbias.data.own.table import as_text, distinct_of

_BATCH = 2**14  # cells that are texts at a time


class ArrowCells(Sequence[str]):
    """The cells of an Arrow column as texts, empty where a value is missing."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[at] for at in range(len(self))[row]]
        return as_text(self._column[row].as_py())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BATCH):
            yield from map(as_text, self._column.slice(start, _BATCH).to_pylist())

    def distinct(self) -> tuple[np.ndarray, list[str]]:
        """The number of each cell among the distinct ones, (n,) int64, and these as texts."""
        coded = self._column.combine_chunks().dictionary_encode(null_encoding="encode")
        places, texts = distinct_of(list(map(as_text, coded.dictionary.to_pylist())))
        return places[coded.indices.to_numpy()], texts
