"""Reading tables from files: separated text or Parquet, with every cell as text."""

import codecs
import csv
import io
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from crossbias.data.own.table import LabelTable
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed

_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}


def read_table(path: Path) -> LabelTable:
    """Read the table in a ``.csv``, ``.tsv`` or ``.parquet`` file."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise CrossbiasError(f"{path} must be a .csv, .tsv or .parquet file")
    try:
        table = _parquet(path) if suffix == ".parquet" else _text(path, suffix)
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    except csv.Error as error:
        raise CrossbiasError(f"{path} is not a table: {error}; save it as CSV again") from error
    if not table.where:
        raise CrossbiasError(f"{path} has no rows")
    return table


def _text(path: Path, suffix: str) -> LabelTable:
    content, usual = _decoded(path), "\t" if suffix == ".tsv" else ","
    separator = separator_of(content, usual)
    rows = _rows(io.StringIO(content, newline=""), separator)
    _, header = next(rows, (0, []))
    twice = [name for name, count in Counter(header).items() if count > 1 and name]
    if twice:
        raise CrossbiasError(f"{path} has the column {twice[0]!r} twice; rename one of them")
    lines, cells = [], []
    for line, row in rows:
        if len(row) != len(header):
            raise CrossbiasError(
                f"{path} line {line} has {len(row)} cells, but the header has {len(header)}; "
                f"put quotes around text with a {_SEPARATORS[separator]} in it"
            )
        lines.append(f"{path.name} line {line}")
        cells.append(row)
    columns = {name: [row[at] for row in cells] for at, name in enumerate(header) if name}
    note = f"{path} is read as separated by {_SEPARATORS[separator]}s"
    return LabelTable(str(path), columns, lines, "" if separator == usual else note)


def _decoded(path: Path) -> str:
    """The text of a file, which must be UTF-8."""
    content = path.read_bytes()
    try:
        # Spreadsheets start UTF-8 with a mark that would become part of the first column's name.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        raise CrossbiasError(
            f"{path} line {line} is not UTF-8 text (byte 0x{content[error.start]:02x}); save the "
            f"table as UTF-8 (CSV UTF-8 in a spreadsheet), or convert it: iconv "
            f"-f {'utf-16' if marked else 'latin1'} -t utf-8 {shlex.quote(str(path))} > NEW.csv"
        ) from None


def separator_of(content: str, usual: str) -> str:
    """The separator that gives the header the most columns; the usual one unless others do."""
    header = next((line for line in io.StringIO(content) if line.strip()), "")
    columns = {
        separator: len(next(csv.reader([header], delimiter=separator)))
        for separator in (usual, *_SEPARATORS)
        if header
    }
    return max(columns, key=lambda separator: columns[separator], default=usual)


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
