"""LazyRows: a sequence whose elements are made when somebody asks for them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

Made_co = TypeVar("Made_co", covariant=True)


class LazyRows(Sequence[Made_co]):
    """What is made of each of some rows, one at a time, so that a million take no memory.

    >>> LazyRows("labels.csv line {}".format, range(2, 5))[1]
    'labels.csv line 3'

    Args:
        make: Makes the element of a row.
        rows: The rows.
    """

    def __init__(self, make: Callable[[int], Made_co], rows: Sequence[int]) -> None:
        self._make, self._rows = make, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Made_co: ...
    @overload
    def __getitem__(self, at: slice) -> "LazyRows[Made_co]": ...
    def __getitem__(self, at: int | slice) -> "Made_co | LazyRows[Made_co]":
        if isinstance(at, slice):
            return LazyRows(self._make, self._rows[at])
        return self._make(self._rows[at])

    def __iter__(self) -> Iterator[Made_co]:
        return map(self._make, self._rows)
