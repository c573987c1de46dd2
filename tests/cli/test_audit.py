"""``crossbias audit``: what a person types, sees, and gets told."""

import json
from pathlib import Path

import pytest
from PIL import Image

from crossbias.audit import suspects

GLYPHS = ["--data", "glyphs", "--set", "data.size=100", "--set", "data.test_size=50"]
GLYPHS += ["--set", "data.image_size=16", "--device", "cpu"]
FAST = ["--permutations", "99"]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(suspects, "STEPS", 10)


def test_data_is_audited_in_one_command(crossbias):
    code, out, err = crossbias("audit", *GLYPHS, "--set", "data.rho=0.95", *FAST, "--out", "a")
    assert code == 0, err
    assert "background" in out
    assert "Not tested:" in out
    assert "probing color" in err
    kept = json.loads(Path("a/audit.json").read_text())
    assert kept["verdict"]["sentence"] in out
    assert kept["verdict"]["findings"][0]["strength"] == "strong"
    assert kept["cues"][2]["name"] == "color"
    assert Path("a", kept["pictures"][0]["file"]).exists()
    assert Path("a/audit.html").read_text().startswith("<!DOCTYPE html>")
    first = kept["suspects"]["candidates"][0]
    (line,) = [line for line in out.splitlines() if line.startswith(f"- {first['target']}: ")]
    assert f" sample {first['index']}, " in line
    assert "Suspects, samples that a briefly trained network takes for another class:" in out


def test_all_columns_are_tested_or_named(crossbias):
    """An age has too many values to be an attribute unless it is binned."""
    Path("cells").mkdir()
    lines = ["file,ill,age,sex"]
    for number in range(40):
        lines.append(f"{number}.png,{number % 2},{20 + number},{'fm'[number // 2 % 2]}")
        Image.new("L", (8, 8), 5 * number).save(f"cells/{number}.png")
    Path("cells/labels.csv").write_text("\n".join(lines))
    own = ["--data", "folder:cells", "--labels", "labels.csv", "--target", "ill", *FAST]
    own += ["--set", "size=8", "--device", "cpu"]
    code, out, err = crossbias("audit", *own, "--out", "a")
    assert code == 0, err
    assert "- Column 'age' of the table of labels: " in out
    assert "Column 'age' of the table" in Path("a/audit.html").read_text().replace("&#39;", "'")
    code, out, err = crossbias("audit", *own, "--set", "attributes=sex,age:40", "--out", "b")
    assert code == 0, err
    assert "of the table of labels: " not in out
    kept = json.loads(Path("b/audit.json").read_text())
    assert [found["name"] for found in kept["attributes"]] == ["sex", "age:40"]


def test_a_run_is_audited_with_its_data(crossbias):
    code, _, err = crossbias("train", *GLYPHS, "--method", "erm", "--epochs", "1", "--out", "r")
    assert code == 0, err
    before = {path: path.read_bytes() for path in Path("r").iterdir() if path.is_file()}
    code, out, err = crossbias("audit", "--run", "r", *FAST, "--device", "cpu", "--quiet")
    assert code == 0, err
    assert err == ""
    assert "features reveal background" in out
    assert "audit: audits/r/audit.html" in out
    model = json.loads(Path("audits/r/audit.json").read_text())["model"]
    assert (model["name"], model["split"]) == ("r", "test")
    assert before == {path: path.read_bytes() for path in Path("r").iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "glyph"], "did you mean 'glyphs'"),
        ([], "no data set is named; pass --data"),
        (["--run", "nothing"], "nothing is not a run folder: it has no config.json"),
        (["--run", "r", "--data", "glyphs"], "--run already names the data"),
        (["--data", "glyphs", "--split", "tset"], "has no split 'tset' (did you mean 'test'"),
        (["--data", "glyphs", "--set", "data.rho"], "written NAME=VALUE, got 'data.rho'"),
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
