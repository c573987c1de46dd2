"""Values that may be misspelled: ``Male`` beside ``male``, and words for a missing value."""

from collections.abc import Iterable, Mapping

from crossbias.data.own.table import LabelTable, is_missing


def spelling_note(table: LabelTable, columns: Iterable[str]) -> str | None:
    """A sentence about doubtful values of some columns, with their counts; None without any."""
    found = [text for name in columns for text in _doubts(name, table.counts(name))]
    return f"{table.name}: {'; '.join(found)}" if found else None


def alone_note(table: LabelTable, group_by: str) -> str | None:
    """A sentence about the rows without a value of ``group_by``; None if all have one."""
    counts = table.counts(group_by)
    alone = sum(count for cell, count in counts.items() if is_missing(cell))
    if not alone:
        return None
    return f"{table.name}: {group_by} is missing in {alone:,} rows, each of which counts alone"


def _doubts(name: str, counts: Mapping[str, int]) -> list[str]:
    missing = [cell for cell in counts if is_missing(cell)]
    spellings: dict[str, list[str]] = {}
    for cell in sorted(counts.keys() - set(missing)):
        spellings.setdefault(cell.casefold(), []).append(cell)
    doubts = [
        f"{name}: {_counted(alike, counts)} are kept apart; write them alike if they mean the same"
        for alike in spellings.values()
        if len(alike) > 1
    ]
    if any(missing):  # a cell that is only empty needs no word
        doubts.append(f"{name}: read as unknown: {_counted(missing, counts)}")
    return doubts


def _counted(cells: list[str], counts: Mapping[str, int]) -> str:
    """Cells with their number of rows, as in ``'Male' (12 rows) and 'male' (1 row)``."""
    return " and ".join(
        f"{repr(cell) if cell else 'empty cells'} ({counts[cell]:,} row{'s'[: counts[cell] != 1]})"
        for cell in sorted(cells)
    )
