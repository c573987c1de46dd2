"""Tables that Arrow reads are those of the reader that goes line by line."""

import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossbias.data.own.arrow_cells import ArrowCells
from crossbias.data.own.columns import attribute_columns
from crossbias.data.own.spelling import alone_note, spelling_note
from crossbias.data.own.table import EncodedColumn, LabelTable
from crossbias.data.own.table_files import read_table
from crossbias.errors import CrossbiasError

CELLS = st.sampled_from(
    ["a", "A", " b", "é", "", "NA", "1", "1.0", "02", "-3.5", "1e3", "nan", "x y"]
)
ROWS = st.lists(st.tuples(CELLS, CELLS, st.integers(-3, 3)), min_size=1, max_size=30)


def both(path: Path, text: str) -> tuple[LabelTable, LabelTable]:
    """The table as Arrow reads it, and as the other reader does."""
    path.write_text(text, encoding="utf-8", newline="")
    fast = read_table(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        slow = read_table(path)
    assert all(isinstance(cells, list) for cells in slow.columns.values())
    return fast, slow


def outcome(action) -> object:
    """What an action gives, or what it says."""
    try:
        found = action()
    except CrossbiasError as error:
        return str(error)
    return (found.numbers.tolist(), found.values) if isinstance(found, EncodedColumn) else found


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, ending=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), mark=st.booleans())
def test_arrow_and_lines_give_the_same(tmp_path, rows, ending, last, mark):
    lines = [
        "file,one,two,number",
        *(f"f{at}.png,{a},{b},{n}" for at, (a, b, n) in enumerate(rows)),
    ]
    text = "\ufeff" * mark + ending.join(lines) + ending * last
    fast, slow = both(tmp_path / "labels.csv", text)
    assert all(isinstance(cells, ArrowCells) for cells in fast.columns.values())
    assert {name: list(cells) for name, cells in fast.columns.items()} == dict(slow.columns)
    assert list(fast.where) == list(slow.where)
    for name in fast.columns:
        assert fast.counts(name) == slow.counts(name)
        assert outcome(lambda name=name: fast.encoded(name)) == outcome(
            lambda name=name: slow.encoded(name)
        )
        assert outcome(lambda name=name: fast.binned(name, (0, 2.5))) == outcome(
            lambda name=name: slow.binned(name, (0, 2.5))
        )
        assert outcome(lambda name=name: fast.chosen(name, ["a", "b", "1"])) == outcome(
            lambda name=name: slow.chosen(name, ["a", "b", "1"])
        )
        assert spelling_note(fast, [name]) == spelling_note(slow, [name])
        assert alone_note(fast, name) == alone_note(slow, name)
    assert attribute_columns(fast, apart=["file"]) == attribute_columns(slow, apart=["file"])


@pytest.mark.parametrize(
    "text",
    [
        'file,a\nx,"1"\n',  # quotes
        "file,a\n\nx,1\n",  # an empty line, so that lines are not rows
        "\nfile,a\nx,1\n",
    ],
)
def test_other_files_are_left_to_the_reader_that_knows_the_lines(tmp_path, text):
    fast, slow = both(tmp_path / "labels.csv", text)
    assert fast == slow


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,a\nx\n", r"line 2 has 1 cells, but the header has 2"),
        ("file,a,a\nx,1,2\n", r"has the column 'a' twice"),
        ("file,a\n", r"has no rows"),
    ],
)
def test_mistakes_are_still_explained(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(CrossbiasError, match=message):
        read_table(tmp_path / "labels.csv")


def test_other_separators_are_found_and_said(tmp_path):
    fast, slow = both(tmp_path / "labels.csv", "file;a\nx;1,5\ny;2\n")
    assert fast.note == slow.note != ""
    assert {name: list(cells) for name, cells in fast.columns.items()} == dict(slow.columns)


def test_parquet_keeps_its_columns_in_arrow(tmp_path):
    columns = {
        "n": [1.0, 2.5, None, 1.0],
        "t": [" a", "a", "b", None],
        "b": [True, False, None, True],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert {name: list(cells) for name, cells in table.columns.items()} == {
        "n": ["1", "2.5", "", "1"], "t": ["a", "a", "b", ""], "b": ["True", "False", "", "True"],
    }  # fmt: skip
    assert table.columns["t"][-2:] == ["b", ""]
    assert table.encoded("t").numbers.tolist() == [0, 0, 1, -1]
    assert table.counts("t") == {"a": 2, "b": 1, "": 1}


def test_columns_are_combined_as_their_pairs():
    first = EncodedColumn(torch.tensor([1, 0, -1, 1, 0, 1]), ("a", "b"))
    second = EncodedColumn(torch.tensor([0, 1, 0, -1, 1, 1]), ("c", "d"))
    found = EncodedColumn.combined([first, second])
    assert found.values == ("a / d", "b / c", "b / d")
    assert found.numbers.tolist() == [1, 0, -1, -1, 0, 2]
