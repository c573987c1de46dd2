"""``crossbias audit``: what a person types, sees, and gets told."""

import json
import sys
from pathlib import Path

import pytest

from crossbias.cli import main

GLYPHS = ["--data", "glyphs", "--data-set", "size=100", "--data-set", "test_size=50"]
GLYPHS += ["--data-set", "image_size=16", "--device", "cpu"]
FAST = ["--permutations", "99"]


@pytest.fixture
def crossbias(monkeypatch, capsys, tmp_path):
    """Type a command in an empty folder; get exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("crossbias.audit.suspects.STEPS", 10)

    def typed(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["crossbias", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return typed


def test_data_is_audited_in_one_command(crossbias):
    code, out, err = crossbias("audit", *GLYPHS, "--data-set", "rho=0.95", *FAST, "--out", "a")
    assert code == 0, err
    assert "background" in out
    assert "Not tested:" in out
    assert "probing color" in err
    kept = json.loads(Path("a/audit.json").read_text())
    assert kept["verdict"]["sentence"] in out
    assert kept["verdict"]["findings"][0]["strength"] == "strong"
    assert kept["cues"][2]["name"] == "color"
    assert Path("a", kept["pictures"][0]["file"]).exists()


def test_a_run_is_audited_with_its_data(crossbias):
    code, _, err = crossbias("train", *GLYPHS, "--method", "erm", "--epochs", "1", "--out", "r")
    assert code == 0, err
    before = {path: path.read_bytes() for path in Path("r").iterdir() if path.is_file()}
    code, out, err = crossbias("audit", "--run", "r", *FAST, "--device", "cpu", "--quiet")
    assert code == 0, err
    assert err == ""
    assert "features tell background" in out
    assert "audit: audits/r" in out
    model = json.loads(Path("audits/r/audit.json").read_text())["model"]
    assert (model["name"], model["split"]) == ("r", "test")
    assert before == {path: path.read_bytes() for path in Path("r").iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "glyph"], "did you mean 'glyphs'"),
        ([], "no data set is named; pass --data"),
        (["--run", "nothing"], "nothing/config.json does not exist"),
        (["--run", "r", "--data", "glyphs"], "--run brings its own data"),
        (["--data", "glyphs", "--split", "tset"], "has no split 'tset' (did you mean 'test'"),
        (["--data", "glyphs", "--data-set", "rho"], "written NAME=VALUE, got 'rho'"),
    ],
)
def test_a_mistake_is_one_clear_line_and_nothing_is_written(crossbias, arguments, message):
    code, out, err = crossbias("audit", *arguments, "--out", "a")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
    assert not Path("a").exists()


def test_a_folder_in_use_is_refused_before_anything_is_computed(crossbias):
    Path("a").mkdir()
    Path("a/file").write_text("mine")
    code, _, err = crossbias("audit", *GLYPHS, "--out", "a")
    assert code == 2
    assert "a is not empty and holds no audit" in err
    assert "probing" not in err
