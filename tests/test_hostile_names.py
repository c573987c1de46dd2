"""Names that try to steer the terminal or a spreadsheet: they are shown, and nothing else."""

import io
import sys

import pytest
from rich.console import Console

from crossbias.cli import main, printing
from crossbias.formatting import csv_cell, visible
from crossbias.progress import BarProgress, LineProgress

HOSTILE = "cat\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj\u2066.\u200f\rdog\x08\udcff"
SHOWN = "cat\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202egpj\\u2066.\\u200f\\rdog\\x08\\udcff"


def test_only_what_steers_is_escaped():
    assert visible(HOSTILE) == SHOWN
    for harmless in ("Größe 5 µm", "猫", "نعم", "क्\u200dष", "a\u00a0b", "\N{DASH SYMBOL}"):
        assert visible(harmless) == harmless
    assert visible("a\nb") == "a\\nb"


def test_nothing_steers_a_table_or_a_line(capsys):
    table = printing.make_table("class", HOSTILE, title=HOSTILE)
    table.add_row("[red]a[/red]", HOSTILE)
    printing.print_table(table)
    printing.say(HOSTILE)
    out, _ = capsys.readouterr()
    assert not set(HOSTILE) - set(SHOWN) & set(out)
    assert out.splitlines()[-1] == SHOWN


@pytest.mark.parametrize("kind", [LineProgress, BarProgress])
def test_nothing_steers_the_progress(kind):
    written = io.StringIO()
    progress = kind(Console(file=written, width=200, force_terminal=False))
    progress.header([HOSTILE])
    progress.note(HOSTILE)
    progress.prepare(HOSTILE, 1, 2)
    progress.close()
    assert not set(HOSTILE) - set(SHOWN) & set(written.getvalue())
    assert SHOWN in written.getvalue()


def test_an_error_about_a_hostile_name_is_one_line(monkeypatch, capsys):
    name = "evil\n\x1b[1Ano such file\ncrossbias: all is well"
    monkeypatch.setattr(sys, "argv", ["crossbias", "evaluate", name])
    with pytest.raises(SystemExit):
        main()
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_cells_of_csv_are_no_formulas(text):
    assert csv_cell(text) == f"'{text}"
    assert csv_cell(f"a{text}") == f"a{text}"


def test_numbers_in_csv_stay_numbers():
    assert [csv_cell(value) for value in (-0.5, float("nan"), 3)] == [-0.5, "", 3]
