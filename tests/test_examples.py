"""The examples run, for two steps."""

import runpy
import sys
from pathlib import Path

import pytest

import crossbias

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def small_data(monkeypatch):
    """Data sets by name have at most a hundred samples in a split."""
    load = crossbias.load

    def load_few(name, split, **options):
        sizes = {"size": 100, "test_size": 100}
        return load(name, split, **{**options, **sizes})

    monkeypatch.setattr(crossbias, "load", load_few)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs_for_two_steps(name, small_data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "2"])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir()), "an example without a folder leaves nothing behind"


def test_there_are_examples_of_both_uses():
    texts = "".join(path.read_text() for path in EXAMPLES.glob("*.py"))
    assert "crossbias.fit(" in texts
    assert "from crossbias.functional import" in texts
