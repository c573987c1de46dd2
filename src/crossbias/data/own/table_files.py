"""Reading tables from files: separated text or Parquet, with every cell as text."""

import codecs
import csv
import importlib.util
import io
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

from crossbias.data.lazy_rows import LazyRows
from crossbias.data.own.arrow_cells import ArrowCells
from crossbias.data.own.table import LabelTable
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed

_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}


def read_table(path: Path) -> LabelTable:
    """Read the table in a ``.csv``, ``.tsv`` or ``.parquet`` file."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise CrossbiasError(
            f"{path} must be a .csv, .tsv or .parquet file; save a spreadsheet as CSV (UTF-8)"
        )
    try:
        table = _parquet(path) if suffix == ".parquet" else _text(path, suffix)
    except OSError as error:
        raise CrossbiasError(f"cannot read {path}: {error.strerror or error}") from error
    except csv.Error as error:
        raise CrossbiasError(f"{path} is not a table: {error}; save it as CSV again") from error
    if not table.where:
        raise CrossbiasError(f"{path} has no rows")
    return table


def _plain_text(path: Path, suffix: str) -> LabelTable | None:
    """The table of a file with one line for each row, read by Arrow; None for all other files.

    Quotes, empty lines, lines of other lengths and wrong bytes are left to the reader that knows
    the line of each row.
    """
    if importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow
    from pyarrow import csv as arrow

    lines, last = 0, b""
    with open(path, "rb") as file:
        header = file.readline().decode("utf-8-sig", errors="replace")
        file.seek(0)
        while part := file.read(2**22):
            if b'"' in part or b"\0" in part:
                return None
            lines, last = lines + part.count(b"\n"), part[-1:]
    lines += last != b"\n"
    usual = "\t" if suffix == ".tsv" else ","
    separator = separator_of(header, usual)
    names = [name.strip() for name in header.rstrip("\r\n").split(separator)]
    if not header.strip() or len(set(names)) < len(names):
        return None
    texts = {name: pyarrow.string() for name in names}
    try:
        found = arrow.read_csv(
            path,
            read_options=arrow.ReadOptions(column_names=names, skip_rows=1),
            parse_options=arrow.ParseOptions(delimiter=separator, quote_char=False),
            convert_options=arrow.ConvertOptions(column_types=texts, strings_can_be_null=False),
        )
    except pyarrow.ArrowException:
        return None
    if found.num_rows != lines - 1:
        return None
    columns = {name: ArrowCells(found.column(at)) for at, name in enumerate(names) if name}
    where = LazyRows(partial(_place, f"{path.name} line"), range(2, found.num_rows + 2))
    return LabelTable(str(path), columns, where, _note(path, separator, usual))


def _text(path: Path, suffix: str) -> LabelTable:
    if (plain := _plain_text(path, suffix)) is not None:
        return plain
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
    return LabelTable(str(path), columns, lines, _note(path, separator, usual))


def _note(path: Path, separator: str, usual: str) -> str:
    if separator == usual:
        return ""
    return f"{path} is read as separated by {_SEPARATORS[separator]}s"


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
        found = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise CrossbiasError(f"{path} is not a Parquet file: {error}") from error
    columns = {name: ArrowCells(found.column(name)) for name in found.column_names}
    where = LazyRows(partial(_place, f"{path.name} row"), range(1, found.num_rows + 1))
    return LabelTable(str(path), columns, where)


def _place(kind: str, number: int) -> str:
    return f"{kind} {number}"
