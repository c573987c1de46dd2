"""What a person meets in Python: text where paths are, short reprs, commands that can be typed."""

import shlex
import sys
from pathlib import Path

import pytest
from PIL import Image

import crossbias
from crossbias import load
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM
from crossbias.runs import read_run
from crossbias.runs.folder import resume_command
from crossbias.train.environment import command_line


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two finished runs in folders with a space in their names, given as text."""
    home = tmp_path_factory.mktemp("my runs")
    train, test = (load("glyphs", split, size=60, test_size=40) for split in ("train", "test"))
    results = []
    for seed in (0, 1):
        result = crossbias.fit(
            crossbias.create("erm"), train, network=crossbias.Recipe("small-convnet"),
            config=crossbias.TrainConfig(epochs=1, device="cpu", seed=seed),
            folder=str(home / f"run {seed}"),
        )  # fmt: skip
        result.evaluate(test)
        result.finish()
        results.append(result)
    return results


def test_run_folders_may_be_text(trained, tmp_path):
    folders = [str(result.folder) for result in trained]
    assert read_run(folders[0]).path == trained[0].folder
    assert len(crossbias.compare(folders).runs) == 2
    assert crossbias.report(folders, str(tmp_path / "page.html")).path == tmp_path / "page.html"


def test_a_run_that_was_not_judged_says_how_to_judge_it(tmp_path):
    data = load("glyphs", "train", size=60)
    config = crossbias.TrainConfig(steps=1, device="cpu")
    options = {"network": "small-convnet", "config": config, "folder": tmp_path / "run"}
    result = crossbias.fit(crossbias.create("erm"), data, **options)
    with pytest.raises(CrossbiasError, match=r"if it was not judged yet, call evaluate\(test\)"):
        crossbias.compare(tmp_path / "run")
    result.evaluate(load("glyphs", "test", test_size=40))
    assert len(crossbias.compare(tmp_path / "run").runs) == 1


@pytest.mark.parametrize(
    ("method", "config", "said"),
    [
        ("erm", crossbias.TrainConfig(), r"^fit takes a method such as PGD\(\), got 'erm'; "
         r"crossbias.create\('erm'\) makes one$"),
        (ERM, None, r"^fit takes a method such as PGD\(\), got <class '[\w.]+ERM'>$"),
        (ERM(), {"epochs": 1}, r"^fit takes a config such as .*, got {'epochs': 1}$"),
    ],
    ids=["name", "class", "dictionary"],
)  # fmt: skip
def test_a_method_or_config_of_another_kind_is_one_line(method, config, said):
    with pytest.raises(CrossbiasError, match=said):
        crossbias.fit(method, load("glyphs", "train", size=60), config=config)


def test_files_of_an_audit_may_be_text(tmp_path):
    data, files = load("glyphs", "train", size=60, image_size=16), []
    for number in range(len(data)):
        files.append(str(tmp_path / f"{number}.png"))
        Image.new("L", (4, 4), number).save(files[-1])
    found = crossbias.audit(data, files=files, permutations=20, device="cpu")
    assert "file format" in {finding.name for finding in found.cues}


def test_options_of_data_may_be_paths(tmp_path):
    lines = ["file,ill"]
    for number in range(20):
        Image.new("L", (4, 4), number).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{number % 2}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    data = load(f"folder:{tmp_path}", "train", labels=tmp_path / "labels.csv", target="ill", size=4)
    assert data.origin["labels"] == str(tmp_path / "labels.csv")


def test_reprs_are_one_short_line(trained):
    folders = [str(result.folder) for result in trained]
    compared, run = crossbias.compare(folders), read_run(folders[0])
    assert repr(compared) == "<2 runs on glyphs test: Plain training (ERM)>"
    assert repr(run) == f"<{folders[0]}: erm on glyphs, seed 0>"
    assert repr(run.predictions["test"]) == "<answers to 40 samples of 10 classes>"
    metrics = repr(run.metrics["test"])
    assert metrics.startswith("<40 samples, 10 classes: overall ")
    assert repr(trained[0]) == f"<erm on glyphs: {{'test': {metrics}}}>"
    assert all("\n" not in repr(each) for each in (compared, run, trained[0], compared.rows))


def test_printed_commands_survive_spaces(monkeypatch):
    words = ["train", "--data", "folder:my photos", "--out", "runs/a b"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/crossbias", *words])
    assert shlex.split(command_line()) == ["crossbias", *words]
    assert shlex.split(resume_command(Path("runs/a b")))[-1] == "runs/a b"
