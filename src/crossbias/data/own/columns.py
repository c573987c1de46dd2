"""Columns as a person names them: ``hospital``, ``hospital,sex``, or binned as ``age:30,40``."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from crossbias.data.own.table import EncodedColumn, LabelTable, is_missing, number_in
from crossbias.errors import CrossbiasError

MOST_VALUES = 20
"""A column with more values is not an attribute unless it is named."""

_ROWS_EACH = 5  # rows that a value must have on average; an identifier has one


class ChosenColumn(NamedTuple):
    """A column, and the limits between its bins if its numbers are binned."""

    column: str
    limits: tuple[float, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.column, *([",".join(map(str, self.limits))] if self.limits else [])])

    def encoded(self, table: LabelTable) -> EncodedColumn:
        """The column as numbers."""
        if self.limits:
            return table.binned(self.column, self.limits)
        return table.encoded(self.column)


def chosen_columns(text: str, table: LabelTable) -> list[ChosenColumn]:
    """The columns in a text: names separated by commas, each with the limits of its bins.

    >>> table = LabelTable("labels.csv", {"age": [], "sex": []}, [])
    >>> [str(column) for column in chosen_columns("age:30,40,sex", table)]
    ['age:30,40', 'sex']
    """
    if text in table.columns:  # a name may have commas and colons in it
        return [ChosenColumn(text)]
    found: list[ChosenColumn] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        limit = None if part in table.columns else number_in(part)
        if limit is not None and found and found[-1].limits:
            found[-1] = found[-1]._replace(limits=(*found[-1].limits, limit))
        elif part in table.columns or ":" not in part:
            found.append(ChosenColumn(part))
        else:
            column, _, first = part.rpartition(":")
            found.append(ChosenColumn(column, (_limit(column, first),)))
    for chosen in found:
        if any(low >= high for low, high in pairwise(chosen.limits)):
            raise CrossbiasError(f"the limits of {chosen} must increase, as in age:30,40")
    return found


def attribute_columns(table: LabelTable, *, apart: Iterable[str]) -> list[ChosenColumn]:
    """The columns of few values, except those that are ``apart``: results are reported by them."""
    apart = set(apart)
    return [
        ChosenColumn(name)
        for name in table.columns
        if name not in apart and _has_few_values(table.counts(name))
    ]


def crowded_note(name: str, column: EncodedColumn, *, is_bias: bool) -> str | None:
    """A sentence about a target or a bias of so many values that it was hardly meant; else None.

    Numbers are a measurement if they are a bias, such as an age. Classes may be numbered.
    """
    known = column.numbers[column.numbers >= 0]
    values = [column.values[at] for at in sorted(set(known.tolist()))]
    if len(values) <= MOST_VALUES:
        return None
    are_numbers = all(number_in(value) is not None for value in values)
    if len(known) >= _ROWS_EACH * len(values) and not (is_bias and are_numbers):
        return None
    remedy = f"bin the numbers, as in {name}:30,40" if are_numbers else "name a column of fewer"
    return f"{name} has {len(values):,} values in {len(known):,} rows; {remedy}"


def _has_few_values(counts: Mapping[str, int]) -> bool:
    known = {cell: count for cell, count in counts.items() if not is_missing(cell)}
    if not 2 <= len(known) <= min(MOST_VALUES, sum(known.values()) // _ROWS_EACH):
        return False
    return len({number_in(value) is None for value in known}) == 1


def _limit(column: str, text: str) -> float:
    limit = number_in(text)
    if limit is None:
        raise CrossbiasError(
            f"{text!r} is not a number to bin {column} by; write COLUMN:LIMIT,LIMIT, "
            f"as in age:30,40"
        )
    return limit
