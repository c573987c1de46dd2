"""Tables of answers: CSV, TSV or Parquet files, data frames, or any mapping of columns."""

import csv
import importlib.util
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossbias.answers.columns_of_answers import Cells
from crossbias.data.own.table_files import read_table, separator_of
from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown
from crossbias.verify.given_columns import named_columns

Table = str | Path | Mapping[str, Any] | Any
"""A file, a data frame, or a mapping from names to columns."""


class AnswerTable:
    """Named columns of one file or data frame.

    Args:
        name: What messages call it.
        columns: The columns by name.
        rows: How long they are.
        model: The one model whose answers it holds, where that is known.
    """

    def __init__(
        self, name: str, columns: Mapping[str, Cells], rows: int, model: str | None = None
    ) -> None:
        self.name = name
        self.columns = columns
        self.rows = rows
        self.model = model
        if not rows:
            raise CrossbiasError(f"{name} has no rows; write one for each sample")

    def __repr__(self) -> str:
        return f"<{self.rows:,} rows of {self.name}: {', '.join(self.columns)}>"

    def cells(self, column: str) -> Cells:
        """The cells of one column."""
        if column not in self.columns:
            raise unknown(f"{self.name} has no column", column, self.columns, "its columns are")
        return self.columns[column]


def answer_table(table: Table) -> AnswerTable:
    """Read a file, or take the columns of a data frame or mapping.

    >>> answer_table({"y": [0, 1], "p": [0.2, 0.9]})
    <2 rows of the table: y, p>
    """
    if isinstance(table, str | Path):
        return _from_file(Path(table))
    if isinstance(table, AnswerTable):
        return table
    columns = named_columns(table)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise CrossbiasError(f"the columns of the table differ in length: {lengths}")
    return AnswerTable("the table", columns, next(iter(lengths.values()), 0))


def _from_file(path: Path) -> AnswerTable:
    columns = _with_arrow(path) if importlib.util.find_spec("pyarrow") else None
    if columns is None:  # slower; and it says what is wrong and in which line
        columns = dict(read_table(path).columns)
    return AnswerTable(str(path), columns, len(next(iter(columns.values()), ())))


def _with_arrow(path: Path) -> dict[str, Cells] | None:
    """The columns of a file; None where it is not a sound table, which another reader explains."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        match path.suffix.lower():
            case ".parquet":
                found = pyarrow.parquet.read_table(path)
            case ".csv" | ".tsv":
                found = _separated(path)
            case _:
                return None
    except (OSError, UnicodeError, pyarrow.ArrowException):
        return None
    names = [name.strip() for name in found.column_names]
    if not names or len(set(names)) < len(names):
        return None
    # An empty name is that of a column without a head, such as the index of a data frame.
    return {name: found.column(at) for at, name in enumerate(names) if name}


def _separated(path: Path) -> Any:
    """The Arrow table of a CSV or TSV file, every cell as text."""
    import pyarrow
    from pyarrow import csv as arrow

    with open(path, encoding="utf-8-sig", newline="") as file:
        header = next((line for line in file if line.strip()), "")
    separator = separator_of(header, "\t" if path.suffix.lower() == ".tsv" else ",")
    names = next(csv.reader(io.StringIO(header), delimiter=separator), [])
    # Texts: a number that is inferred would make 007 and 7 the same patient.
    texts = dict.fromkeys(names, pyarrow.string())
    return arrow.read_csv(
        path,
        parse_options=arrow.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow.ConvertOptions(column_types=texts, strings_can_be_null=False),
    )
