"""Tables of the papers: right files, runs that are not repeated, honest numbers."""

import json
import math
import sys
from pathlib import Path

import pytest
from benchmarks import table as tables

from crossbias.errors import CrossbiasError

ROOT = Path(__file__).parents[1]

RECIPE = """
[method]
name = "{method}"
[data]
name = "glyphs"
size = 60
test_size = 40
image_size = 16
[network]
name = "mlp"
[train]
steps = 2
batch_size = 16
device = "cpu"
"""

TABLE = """
title = "A table"
paper = "somebody"
seeds = [0, 1]
[metrics.all]
split = "test"
number = "overall"
[columns]
weak = {{ "data.rho" = 0.5 }}
strong = {{ "data.rho" = 0.9 }}
[rows.plain]
recipe = "{recipe}"
paper.all = [[50.0, 60.0], 10.0]
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with one recipe and one table, as the project has them."""
    for name in ("tables", "recipes"):
        (tmp_path / name).mkdir()
    (tmp_path / "recipes" / "tiny.toml").write_text(RECIPE.format(method="erm"))
    (tmp_path / "tables" / "one.toml").write_text(TABLE.format(recipe="tiny"))
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    return tmp_path


def made(home: Path, monkeypatch, *arguments: str) -> dict:
    options = ["--runs", str(home / "runs"), "--results", str(home / "results")]
    monkeypatch.setattr(sys, "argv", ["table", "one", *options, *arguments])
    tables.main()
    return json.loads((home / "results" / "one.json").read_text())


def test_a_table_is_filled_once_and_shown(home, program, monkeypatch, capsys):
    def run(command, cwd, env, **rest):
        return program.run(command[2], command[2:], cwd, env)

    monkeypatch.setattr(tables.subprocess, "run", run)
    found = made(home, monkeypatch, "--jobs", "2")
    assert set(found["runs"]) == {
        f"plain | {column} | {seed}" for column in ("weak", "strong") for seed in (0, 1)
    }
    run = found["runs"]["plain | weak | 1"]
    assert run["command"] == (
        "crossbias train --config recipes/tiny.toml --seed 1 --set data.rho=0.5 --set data.seed=1"
    )
    assert run["hashes"] != found["runs"]["plain | weak | 0"]["hashes"]  # another drawing
    weak = found["cells"][0]
    values = [found["runs"][f"plain | weak | {s}"]["found"]["test"]["overall"] for s in (0, 1)]
    assert weak["mean"] == pytest.approx(50 * sum(values), abs=0.01)
    assert weak["deviation"] == pytest.approx(
        100 * abs(values[0] - values[1]) / math.sqrt(2), abs=0.01
    )
    assert weak["difference"] == pytest.approx(weak["mean"] - 50, abs=0.01)
    assert weak["inside"] is True
    assert found["cells"][1]["inside"] is None  # the paper gives no spread
    text = (home / "results" / "one.md").read_text()
    assert f"| plain | all | weak | {weak['mean']:.2f} ± " in text
    assert "50.0 ± 60.00" in text
    capsys.readouterr()
    assert made(home, monkeypatch) == found
    assert capsys.readouterr().out == ""  # nothing was trained again


def test_a_run_that_fails_is_named_and_never_averaged(home, monkeypatch):
    table = home / "tables" / "one.toml"
    text = table.read_text().replace("[0, 1]", "[0]").replace("[[50.0, 60.0], 10.0]", "[10.0]")
    table.write_text(text.replace('strong = { "data.rho" = 0.9 }\n', ""))
    (home / "recipes" / "tiny.toml").write_text(RECIPE.format(method="erm") + "lr = 1e30\n")
    found = made(home, monkeypatch)
    assert all("diverged" in run["failed"] for run in found["runs"].values())
    assert [cell["n"] for cell in found["cells"]] == [0]
    assert "0, 1 failed" in (home / "results" / "one.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"tiny"',
            '"tony"',
            r"recipe that is not there: 'tony' \(did you mean 'tiny'",
        ),
        ("[0, 1]", "[0, 0]", r"has a seed twice: \[0, 0\]"),
        ("title =", "titel =", "one.toml (lacks 'title'|has an unknown)"),
        ("[[50.0, 60.0], 10.0]", "[10.0]", "has 1 numbers of 'all' for 2 columns"),
    ],
)
def test_mistakes_in_a_table_are_refused(home, old, new, message):
    path = home / "tables" / "one.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(CrossbiasError, match=message):
        tables.Table.read(path, home / "recipes")


def test_rows_with_other_data_do_not_share_a_column(home):
    path = home / "tables" / "one.toml"
    path.write_text(path.read_text() + '[rows.other]\nrecipe = "tiny"\n')
    table = tables.Table.read(path, home / "recipes")
    runs = {
        "plain | weak | 0": {"hashes": {"train": "a", "test": "b"}},
        "other | weak | 0": {"hashes": {"train": "a", "test": "c"}},
    }
    with pytest.raises(CrossbiasError, match=r"'plain .* and 'other .* have other data in test"):
        tables.check_same_data(table, runs)
    path.write_text(path.read_text() + 'set = { "data.image_size" = 20 }\n')
    tables.check_same_data(tables.Table.read(path, home / "recipes"), runs)


@pytest.mark.parametrize("path", sorted((ROOT / "tables").glob("*.toml")), ids=lambda p: p.stem)
def test_the_tables_of_the_papers_are_right_and_shown_as_generated(path):
    table = tables.Table.read(path, ROOT / "recipes")
    results = ROOT / "benchmarks" / "results" / "tables" / f"{path.stem}.json"
    if results.exists():
        content = json.loads(results.read_text())
        tables.check_same_data(table, content["runs"])
        text = tables.markdown(table, content["cells"])
        assert results.with_suffix(".md").read_text() == text
        assert text in (ROOT / "benchmarks" / "README.md").read_text()
