"""Data by name in an experiment: what reaches the source, what a run folder records of it."""

import json
import sys
from pathlib import Path

import pytest

import crossbias
from crossbias import TrainConfig, load
from crossbias.cli import main
from crossbias.data import BiasedMNIST, plant
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment, load_trained
from crossbias.networks import Recipe

TRAIN = {"epochs": 1, "device": "cpu"}
MLP = {"name": "mlp", "width": 8}


def experiment(**data: object) -> Experiment:
    return Experiment(method={"name": "erm"}, data=data, network=MLP, train=TRAIN)


@pytest.mark.usefixtures("small_originals")
def test_a_run_folder_knows_how_its_data_was_made(tmp_path: Path) -> None:
    run = tmp_path / "run"
    experiment(name="biased-mnist", rho=0.9, seed=2, label_noise="0.1").run(run)
    recorded = json.loads((run / "config.json").read_text())["data"]
    assert recorded["version"] == BiasedMNIST.version
    assert (recorded["rho"], recorded["seed"], recorded["label_noise"]) == (0.9, 2, 0.1)
    again, _ = load_trained(run)
    (run / "done").unlink()
    with pytest.raises(
        CrossbiasError, match="not finished; finish it with: crossbias train --resum"
    ):
        load_trained(run)
    splits = ("train", "validation", *BiasedMNIST().test_splits)
    assert {split: again.split(split).hash for split in splits} == recorded["hashes"]
    expected = load("biased-mnist", "train", rho=0.9, seed=2, label_noise=0.1)
    assert recorded["hashes"]["train"] == expected.hash


@pytest.mark.usefixtures("small_originals")
def test_a_run_on_another_version_of_the_data_is_not_judged_on_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment(name="biased-mnist").run(tmp_path / "run")
    monkeypatch.setattr(BiasedMNIST, "version", 7)
    trained, _ = load_trained(tmp_path / "run")
    with pytest.raises(CrossbiasError, match=r"has version 1 of biased-mnist, .* makes version 7"):
        trained.split("test")


def test_a_run_on_planted_data_is_continued_where_it_was_planted(tmp_path: Path) -> None:
    data = plant(load("glyphs", "train", size=50, image_size=16), bias="patch", rho=0.9)
    config = TrainConfig(**TRAIN)
    network = Recipe("mlp", {"width": 8})
    method = crossbias.create("erm")
    crossbias.fit(method, data, network=network, config=config, folder=tmp_path / "run")
    recorded = json.loads((tmp_path / "run" / "config.json").read_text())["data"]
    assert recorded["planted"] == ["patch", 0.9, 0]
    with pytest.raises(CrossbiasError, match=r"a bias was planted into the data of .* in Python"):
        Experiment.from_run(tmp_path / "run")


def test_label_noise_out_of_range_is_refused() -> None:
    with pytest.raises(CrossbiasError, match=r"label_noise of data set 'glyphs' must be in \[0"):
        experiment(name="glyphs", label_noise="2").split("train")
    with pytest.raises(CrossbiasError, match="label_noise of data set 'glyphs' must be a number"):
        experiment(name="glyphs", label_noise="some").split("train")


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("colored-mnist", ["validation", "test", "test-majority", "test-random-color"]),
        ("colored-mnist-lnl", ["test", "test-color-0", "test-color-9"]),
        ("watermarked-mnist", ["validation", "test", "test-minority"]),
    ],
)
def test_a_model_is_trained_and_judged_by_name(
    name: str, splits: list[str], small_originals: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    arguments = [
        "--root",
        str(small_originals),
        "--set",
        "data.label_noise=0.1",
        "--network",
        "mlp",
    ]
    arguments += ["--epochs", "1", "--device", "cpu", "--out", str(tmp_path / "run"), "--quiet"]
    monkeypatch.delenv("CROSSBIAS_DATA")
    monkeypatch.setattr(
        sys, "argv", ["crossbias", "train", "--data", name, "--method", "erm", *arguments]
    )
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code, capsys.readouterr().err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(splits) <= set(metrics)
    if name == "colored-mnist":  # no bias is known there
        assert metrics["test-random-color"]["aligned"] is None
        assert metrics["test-random-color"]["overall"]["n"] == 200


def test_the_data_sets_are_listed_with_splits_and_options(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["crossbias", "list", "data"])
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr().out
    for name in ("biased-mnist", "colored-mnist-lnl", "colored-mnist", "watermarked-mnist"):
        assert name in out
    assert "held_out=0.0" in out
