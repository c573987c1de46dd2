"""Tables about the same samples, whose rows are matched by an identifier."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from crossbias.answers.columns_of_answers import encoded_labels, identities
from crossbias.answers.reading import AnswerTable
from crossbias.data.own.table import EncodedColumn
from crossbias.errors import CrossbiasError


def rows_by_identifier(table: AnswerTable, column: str) -> dict[str, int]:
    """The row of each identifier."""
    numbers, texts = identities(f"{column} of {table.name}", table.cells(column))
    if len(texts) < table.rows:
        number = int(np.bincount(numbers).argmax())
        rows = (np.flatnonzero(numbers == number) + 1).tolist()
        raise CrossbiasError(
            f"{column} of {table.name} is {texts[number]!r} in {len(rows)} rows "
            f"({', '.join(map(str, rows[:3]))}{', ...' if rows[3:] else ''}), "
            f"{table.rows - len(texts):,} rows repeat an identifier in all; each sample has its "
            f"own, and samples that belong together are a --cluster"
        )
    return {texts[number]: row for row, number in enumerate(numbers.tolist())}


def order_of(
    first: AnswerTable,
    table: AnswerTable,
    *,
    identifier: str,
    target: str,
    identifiers: Mapping[str, int],
    truth: EncodedColumn,
) -> Tensor:
    """The row of another table for each row of the first, (n,).

    Args:
        first: The first table.
        table: The other one.
        identifier: The column of identifiers.
        target: The column of classes.
        identifiers: The row of each identifier in the first table, in the order of the rows.
        truth: The classes in the first table.

    Raises:
        CrossbiasError: The tables are not about the same samples, or differ in a class.
    """
    own = rows_by_identifier(table, identifier)
    lacking, further = identifiers.keys() - own.keys(), own.keys() - identifiers.keys()
    if lacking or further:
        examples = ", ".join(repr(name) for name in sorted(lacking or further)[:3])
        raise CrossbiasError(
            f"{table.name} and {first.name} are about different samples: {len(lacking):,} "
            f"identifiers are only in {first.name} and {len(further):,} only in {table.name}, such "
            f"as {examples}; compare models on the same samples"
        )
    order = torch.tensor([own[name] for name in identifiers])
    _check_same_targets(first, table, target, list(identifiers), truth, order)
    return order


def _check_same_targets(
    first: AnswerTable,
    table: AnswerTable,
    target: str,
    identifiers: Sequence[str],
    truth: EncodedColumn,
    order: Tensor,
) -> None:
    """Refuse a table that has another class for a sample; it need not have classes at all."""
    if target not in table.columns:
        return
    other = encoded_labels(f"{target} of {table.name}", table.cells(target))
    mine, theirs = (
        [column.values[number] if number >= 0 else "" for number in numbers.tolist()]
        for column, numbers in ((truth, truth.numbers), (other, other.numbers[order]))
    )
    for name, one, another in zip(identifiers, mine, theirs, strict=True):
        if one != another:
            raise CrossbiasError(
                f"{target} of {name!r} is {one!r} in {first.name}, but {another!r} in "
                f"{table.name}; correct one of them"
            )
