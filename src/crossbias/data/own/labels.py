"""The meaning of the columns of a table: target, bias, further attributes, splits."""

import logging
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import torch
from torch import Tensor

from crossbias.data.assignment import shuffled
from crossbias.data.dataset import BiasedDataset
from crossbias.data.own.columns import ChosenColumn, attribute_columns, chosen_columns
from crossbias.data.own.table import EncodedColumn, LabelTable, is_missing
from crossbias.errors import CrossbiasError
from crossbias.formatting import first_few
from crossbias.seeds import generator_for

SPLIT_NAMES: Final = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "val", "valid", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Common names of splits in lower case; any other name is a test split of its own."""

SPLIT_COLUMN: Final = "split"  # default column of the splits; only this one may be absent

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableLabels:
    """The labels of every row of a table."""

    target: EncodedColumn
    attributes: dict[str, EncodedColumn]  # by name
    bias: str | None  # the attribute that is the bias, if any
    columns: tuple[str, ...]  # the columns of the table that were read

    @classmethod
    def of(
        cls,
        table: LabelTable,
        *,
        target: str,
        bias: str | None,
        attributes: Sequence[str] | None,
        apart: Iterable[str] = (),
        judged_only: bool = False,
    ) -> "TableLabels":
        """Read the labels from columns of a table, which may be binned.

        The bias may be several columns separated by commas; each of them is also an attribute.
        Without ``attributes``, all columns of few values are attributes, except those ``apart``.
        With ``judged_only``, target and bias may have fewer than two values.
        """
        least = 0 if judged_only else 2
        classes, *others = chosen_columns(target, table) or [ChosenColumn(target)]
        if others:
            raise CrossbiasError(f"the target must be one column, got {target!r}")
        parts = chosen_columns(bias or "", table)
        if classes.column in (part.column for part in parts):
            raise CrossbiasError(
                f"{classes.column} is both the target and the bias; name another column as the "
                f"bias, or none"
            )
        if attributes is None:
            used = {column.column for column in (classes, *parts)}
            further = attribute_columns(table, apart={*apart, *used})
        else:
            further = chosen_columns(",".join(attributes), table)
        found = {str(column): column.encoded(table) for column in (*parts, *further)}
        bias = ",".join(map(str, parts))
        if parts:
            combined = EncodedColumn.combined([part.encoded(table) for part in parts])
            found[bias] = _of_two(combined, bias, table, least)
        encoded = _of_two(classes.encoded(table), target, table, least)
        _refuse_missing(table, target, (encoded.numbers < 0).nonzero().flatten().tolist())
        columns = tuple(dict.fromkeys(column.column for column in (classes, *parts, *further)))
        return cls(encoded, found, bias or None, columns)

    def groups(self) -> list[tuple[int, int]]:
        """The (target, bias) pair of every row; without a bias it is ``UNKNOWN``."""
        targets = self.target.numbers
        biases = self.attributes[self.bias].numbers if self.bias else targets * 0 - 1
        return list(zip(targets.tolist(), biases.tolist(), strict=True))


def splits_of(
    table: LabelTable,
    labels: TableLabels,
    *,
    column: str,
    fractions: dict[str, float],
    seed: int,
    group_by: str | None = None,
    judged_only: bool = False,
) -> list[str]:
    """The split of every row: from a column if the table has it, else drawn by fraction.

    Rows with the same value of ``group_by`` are in the same split. Only with
    ``judged_only`` may the column lack ``train``.
    """
    together = None if group_by is None else _units(table.column(group_by))
    if column not in table.columns and column in ("", SPLIT_COLUMN):
        return split_by_fraction(labels.groups(), fractions, seed=seed, together=together)
    cells = [SPLIT_NAMES.get(cell.lower(), cell) for cell in table.column(column)]
    _refuse_missing(table, column, [row for row, cell in enumerate(cells) if is_missing(cell)])
    if "train" not in cells and not judged_only:
        raise CrossbiasError(
            f"{table.name}: {column} is never 'train'; it is {', '.join(sorted(set(cells))[:5])}; "
            f"name another column of splits, or none to have them drawn: split_by="
        )
    if group_by is not None:
        _refuse_torn(table, cells, group_by)
    return cells


def split_by_fraction(
    groups: Sequence[Hashable],
    fractions: Mapping[str, float],
    *,
    seed: int,
    together: Sequence[Hashable] | None = None,
) -> list[str]:
    """A split for every sample; every split gets its fraction of every group, up to rounding.

    Samples are assigned group by group, each to the split that is furthest behind its fraction.
    So groups of one or two samples do not all round to the same split. Samples with the same value
    in ``together`` are assigned at once, with the group that most of them have.

    >>> split_by_fraction("aaaabbbb", {"train": 0.75, "test": 0.25}, seed=0).count("test")
    2
    """
    if min(fractions.values()) < 0 or not math.isclose(sum(fractions.values()), 1):
        raise CrossbiasError(f"the fractions of the splits must sum to 1, got {dict(fractions)}")
    generator = generator_for(seed, "splits")
    found = [""] * len(groups)
    if together is None:
        drawn = (shuffled(torch.tensor(rows), generator) for rows in _rows_by(groups).values())
        order = torch.cat(list(drawn)).tolist()
        for row, split in zip(
            order, _furthest_behind(repeat(1, len(order)), fractions), strict=True
        ):
            found[row] = split
        return found
    units = list(_rows_by(together).values())
    usual = [Counter(groups[row] for row in rows).most_common(1)[0][0] for rows in units]
    order = []
    for members in _rows_by(usual).values():
        drawn_units = shuffled(torch.tensor(members), generator).tolist()
        # Small ones even out the rest.
        order += sorted(drawn_units, key=lambda unit: -len(units[unit]))
    sizes = [len(units[unit]) for unit in order]
    for unit, split in zip(order, _furthest_behind(sizes, fractions), strict=True):
        for row in units[unit]:
            found[row] = split
    return found


def _furthest_behind(sizes: Iterable[int], fractions: Mapping[str, float]) -> Iterator[str]:
    """For units of so many samples, one after the other, the split that is furthest behind."""
    splits, shares = list(fractions), list(fractions.values())
    behind = [0.0] * len(splits)
    for size in sizes:
        behind = [lag + share * size for lag, share in zip(behind, shares, strict=True)]
        chosen = behind.index(max(behind))
        behind[chosen] -= size
        yield splits[chosen]


def _rows_by(values: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """The rows that have each value."""
    rows: dict[Hashable, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(value, []).append(row)
    return rows


def clusters_of(table: LabelTable, column: str) -> Tensor:
    """The number of the cluster of every row, (n,); a row without a value is on its own."""
    units = _units(table.column(column))
    number = {unit: place for place, unit in enumerate(dict.fromkeys(units))}
    return torch.tensor([number[unit] for unit in units])


def torn_note(table: LabelTable, splits: Sequence[str], cluster: str) -> str | None:
    """A sentence about clusters that training shares with another split; None without any."""
    if not (torn := _torn(table, splits, cluster)):
        return None
    return (
        f"{len(torn):,} values of {cluster} are in several splits: {'; '.join(first_few(torn))}; "
        f"a model is then judged on what it has seen; group_by={cluster} draws splits apart"
    )


def _units(cells: Sequence[str]) -> list[Hashable]:
    """Values by which rows stay together; a row without a value is on its own."""
    return [row if is_missing(cell) else cell for row, cell in enumerate(cells)]


def _torn(table: LabelTable, splits: Sequence[str], column: str) -> list[str]:
    """Values that training or validation shares with another split, with a row of each split."""
    torn = []
    for value, rows in _rows_by(_units(table.column(column))).items():
        first = {splits[row]: table.where[row] for row in reversed(rows)}
        if len(first) > 1 and first.keys() & {"train", "validation"}:
            places = " and ".join(f"{split} ({where})" for split, where in first.items())
            torn.append(f"{value} in {places}")
    return torn


def _refuse_torn(table: LabelTable, splits: Sequence[str], group_by: str) -> None:
    """Refuse values of ``group_by`` that training or validation shares with another split."""
    if torn := _torn(table, splits, group_by):
        raise CrossbiasError(
            f"{len(torn):,} values of {group_by} are in several splits: "
            f"{'; '.join(first_few(torn))}; correct the column of splits, or leave out group_by"
        )


def without_conflicts(data: BiasedDataset) -> list[str]:
    """Names of the classes without a conflicting sample, where target and bias coincide."""
    counts = data.counts()
    conflicting = (counts * ~data.alignment()).sum(1)
    return [
        name
        for name, known, other in zip(data.classes, counts.sum(1), conflicting, strict=True)
        if known and not other
    ]


def report_missing_conflicts(data: BiasedDataset) -> None:
    """Warn about classes without a conflicting sample."""
    if alone := without_conflicts(data):
        _logger.warning(
            "%s %s: no sample of %s conflicts with its usual %s; methods that weight or pair "
            "conflicting samples find none in these classes",
            data.name, data.split, ", ".join(alone), data.bias,
        )  # fmt: skip


def _of_two(encoded: EncodedColumn, name: str, table: LabelTable, least: int) -> EncodedColumn:
    present = [encoded.values[at] for at in sorted({*encoded.numbers.tolist()}) if at >= 0]
    if len(present) < least:
        raise CrossbiasError(
            f"{table.name}: {name} has {len(present)} value"
            f"{'s' if not present else f', {present[0]!r},'} and needs two or more; "
            f"name another column, or write the value of the other rows too"
        )
    return encoded


def _refuse_missing(table: LabelTable, name: str, rows: list[int]) -> None:
    if rows:
        listed = ", ".join(first_few([table.where[row] for row in rows]))
        raise CrossbiasError(
            f"{name} is missing in {len(rows):,} of {len(table.where):,} rows ({listed}); "
            f"write it, or take the rows out"
        )
