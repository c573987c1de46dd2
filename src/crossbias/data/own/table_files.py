"""Reading tables from files: CSV, tab-separated or Parquet, with every cell as text."""

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from crossbias.data.extras import check_installed
from crossbias.data.own.table import LabelTable
from crossbias.errors import CrossbiasError


def read_table(path: Path) -> LabelTable:
    """Read the table in a ``.csv``, ``.tsv`` or ``.parquet`` file."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise CrossbiasError(f"{path} must be a .csv, .tsv or .parquet file")
    try:
        table = _parquet(path) if suffix == ".parquet" else _text(path, suffix)
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CrossbiasError(f"{path} is not a table in UTF-8 text: {error}") from error
    if not table.where:
        raise CrossbiasError(f"{path} has no rows")
    return table


def _text(path: Path, suffix: str) -> LabelTable:
    # Spreadsheets start UTF-8 with a mark that would become part of the first column's name.
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = _rows(file, "\t" if suffix == ".tsv" else ",")
        _, header = next(rows, (0, []))
        twice = [name for name, count in Counter(header).items() if count > 1 and name]
        if twice:
            raise CrossbiasError(f"{path} has the column {twice[0]!r} twice; rename one of them")
        lines, cells = [], []
        for line, row in rows:
            if len(row) != len(header):
                raise CrossbiasError(
                    f"{path} line {line} has {len(row)} cells, but the header has {len(header)}; "
                    f"put quotes around text with a comma in it"
                )
            lines.append(f"{path.name} line {line}")
            cells.append(row)
    columns = {name: [row[at] for row in cells] for at, name in enumerate(header) if name}
    return LabelTable(str(path), columns, lines)


def _rows(file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of every row that is not empty."""
    reader, line = csv.reader(file, delimiter=delimiter, strict=True), 1
    for row in reader:
        if row:
            yield line, [cell.strip() for cell in row]
        line = reader.line_num + 1


def _parquet(path: Path) -> LabelTable:
    check_installed("pyarrow", what=f"reading {path}", instead="save the table as CSV")
    import pyarrow
    import pyarrow.parquet

    try:
        found = pyarrow.parquet.read_table(path).to_pydict()
    except pyarrow.ArrowInvalid as error:
        raise CrossbiasError(f"{path} is not a Parquet file: {error}") from error
    columns = {name: [as_text(cell) for cell in cells] for name, cells in found.items()}
    count = len(next(iter(columns.values()), []))
    return LabelTable(str(path), columns, [f"{path.name} row {row + 1}" for row in range(count)])


def as_text(value: object) -> str:
    """A cell as a CSV file would have it; whole numbers have no decimal point.

    >>> as_text(2.0), as_text(0.5), as_text(True), as_text(None), as_text("a ")
    ('2', '0.5', 'True', '', 'a')
    """
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
