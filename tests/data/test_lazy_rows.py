"""A sequence whose elements are made one at a time."""

import pytest

from crossbias.data.lazy_rows import LazyRows


def test_elements_are_made_when_they_are_asked_for():
    made = []

    def make(row: int) -> int:
        made.append(row)
        return 10 * row

    rows = LazyRows(make, [4, 2, 7])
    part = rows[1:]
    assert (len(rows), len(part), made) == (3, 2, [])
    assert (rows[-1], part[0]) == (70, 20)
    assert made == [7, 2]
    assert list(part) == [20, 70]
    with pytest.raises(IndexError):
        rows[3]
