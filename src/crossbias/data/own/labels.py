"""The meaning of the columns of a table: target, bias, further attributes, splits."""

import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from crossbias.data.assignment import shuffled
from crossbias.data.dataset import BiasedDataset
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

    @classmethod
    def of(
        cls,
        table: LabelTable,
        *,
        target: str,
        bias: str | None,
        attributes: Sequence[str],
        judged_only: bool = False,
    ) -> "TableLabels":
        """Read the labels from columns of a table.

        The bias may be several columns separated by commas; each of them is also an attribute.
        With ``judged_only``, target and bias may have fewer than two values.
        """
        parts = bias_columns(bias)
        found = {name: table.encoded(name) for name in (*parts, *attributes)}
        least = 0 if judged_only else 2
        if bias:
            bias = ",".join(parts)
            found[bias] = _of_two(table.combined(parts), bias, table, least)
        classes = _of_two(table.encoded(target), target, table, least)
        _refuse_missing(table, target, (classes.numbers < 0).nonzero().flatten().tolist())
        return cls(classes, found, bias or None)

    def groups(self) -> list[tuple[int, int]]:
        """The (target, bias) pair of every row; without a bias it is ``UNKNOWN``."""
        targets = self.target.numbers
        biases = self.attributes[self.bias].numbers if self.bias else targets * 0 - 1
        return list(zip(targets.tolist(), biases.tolist(), strict=True))


def bias_columns(bias: str | None) -> list[str]:
    """The columns that a bias combines.

    >>> bias_columns("hospital, sex"), bias_columns(None)
    (['hospital', 'sex'], [])
    """
    return [name.strip() for name in bias.split(",")] if bias else []


def splits_of(
    table: LabelTable,
    labels: TableLabels,
    *,
    column: str,
    fractions: dict[str, float],
    seed: int,
    judged_only: bool = False,
) -> list[str]:
    """The split of every row: from a column if the table has it, else drawn by fraction.

    Only with ``judged_only`` may the column lack ``train``.
    """
    if column not in table.columns and column in ("", SPLIT_COLUMN):
        return split_by_fraction(labels.groups(), fractions, seed=seed)
    cells = [SPLIT_NAMES.get(cell.lower(), cell) for cell in table.column(column)]
    _refuse_missing(table, column, [row for row, cell in enumerate(cells) if is_missing(cell)])
    if "train" not in cells and not judged_only:
        raise CrossbiasError(
            f"{table.name}: {column} is never 'train'; it is {', '.join(sorted(set(cells))[:5])}; "
            f"name another column of splits, or none to have them drawn: split_by="
        )
    return cells


def split_by_fraction(
    groups: Sequence[Hashable], fractions: Mapping[str, float], *, seed: int
) -> list[str]:
    """A split for every sample; every split gets its fraction of every group, up to rounding.

    Samples are assigned group by group, each to the split that is furthest behind its fraction.
    So groups of one or two samples do not all round to the same split.

    >>> split_by_fraction("aaaabbbb", {"train": 0.75, "test": 0.25}, seed=0).count("test")
    2
    """
    if min(fractions.values()) < 0 or not math.isclose(sum(fractions.values()), 1):
        raise CrossbiasError(f"the fractions of the splits must sum to 1, got {dict(fractions)}")
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    generator = generator_for(seed, "splits")
    order = [
        row for rows in members.values() for row in shuffled(torch.tensor(rows), generator).tolist()
    ]
    found = [""] * len(groups)
    behind = dict.fromkeys(fractions, 0.0)
    for row in order:
        for split, fraction in fractions.items():
            behind[split] += fraction
        found[row] = max(behind, key=lambda split: behind[split])
        behind[found[row]] -= 1
    return found


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
    if len(encoded.values) < least:
        raise CrossbiasError(
            f"{table.name}: {name} has {len(encoded.values)} value"
            f"{'s' if not encoded.values else f', {encoded.values[0]!r},'} and needs two or more; "
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
