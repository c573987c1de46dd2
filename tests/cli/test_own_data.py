"""Training on a person's own images from the command line."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crossbias import load
from crossbias.data import plant
from crossbias.formatting import DASH
from crossbias.runs.stored import load_predictions


@pytest.fixture(autouse=True)
def images(crossbias):
    """Images and their labels in the folder where commands are typed."""
    Path("x-rays").mkdir()
    lines = ["file,disease,hospital,sex"]
    for number in range(40):
        pixels = np.full((20, 16, 3), 5 * number, np.uint8)
        Image.fromarray(pixels).save(f"x-rays/{number}.png")
        ill, north = number % 2, (number + number // 10) % 2
        lines.append(f"{number}.png,{'ill' if ill else 'well'},{north},{'mf'[number % 3 > 0]}")
    Path("labels.csv").write_text("\n".join(lines) + "\n")


OWN = ["--data", "folder:x-rays", "--labels", "labels.csv", "--target", "disease"]
TINY = ["--network", "small-convnet", "--set", "data.size=16", "--epochs", "1"]
TINY += ["--device", "cpu"]


def test_train_and_evaluate_on_own_images(crossbias):
    code, out, err = crossbias("train", *OWN, "--bias", "hospital,sex", *TINY, "--method", "erm")
    assert code == 0, err
    run = Path("runs/folder-x-rays-erm-0")
    assert f"run: {run}" in out
    assert "28 of 28 images to decode" in err
    assert "data      folder:x-rays: 28 train, 4 validation; 16 x 16 pixels, 3 channels" in err
    data = json.loads((run / "config.json").read_text())["data"]
    assert (data["name"], data["labels"]) == ("folder:x-rays", "labels.csv")
    assert (data["target"], data["bias"]) == ("disease", "hospital,sex")
    metrics = json.loads((run / "metrics.json").read_text())
    assert set(metrics) == {"validation", "test"}
    code, again, err = crossbias("evaluate", str(run))
    assert code == 0, err
    assert "images to decode" not in err
    assert out_of(again, "test") == out_of(out, "test")


def out_of(out: str, split: str) -> str:
    """Overall accuracy of a split in the printed table."""
    return next(line.split()[1] for line in out.splitlines() if line.startswith(f"{split} "))


def test_two_tables_of_labels_that_differ_are_refused(crossbias):
    """A copy is not; either is read where it is named by its path."""
    text = Path("labels.csv").read_text()
    Path("x-rays/labels.csv").write_text(text.replace("ill", "sick"))
    code, _, err = crossbias("data", "show", *OWN[1:])
    assert code == 2
    assert err.count("\n") == 1
    here, there = shlex.split(err.partition("meant: ")[2])[1::3]
    for labels, ill in ((here, "ill"), (there, "sick")):
        code, out, err = crossbias(
            "data", "show", "folder:x-rays", "--labels", labels, *OWN[4:], "--bias", "sex"
        )
        assert code == 0, err
        assert ill in out
    Path("x-rays/labels.csv").write_text(text)
    assert crossbias("data", "show", *OWN[1:])[0] == 0


def test_without_association_nothing_is_called_aligned(crossbias):
    """Every class has each value equally often in training."""
    lines = ["file,disease,hospital,split"]
    for number in range(40):
        ill, north = number % 2, number // 2 % 2
        split = "train" if number < 24 else "test"
        lines.append(f"{number}.png,{'ill' if ill else 'well'},{'sn'[north]},{split}")
    Path("labels.csv").write_text("\n".join(lines) + "\n")
    code, out, err = crossbias("train", *OWN, "--bias", "hospital", *TINY, "--out", "runs/a")
    assert code == 0, err
    told = "no value is associated with a class in training, so no sample is aligned or conflicting"
    assert f"test: {told}\n" in out
    row = next(line for line in out.splitlines() if line.startswith("test "))
    assert row.count(DASH) == 2  # aligned, conflicting
    metrics = json.loads(Path("runs/a/metrics.json").read_text())["test"]
    assert metrics["conflicting"] is metrics["aligned"] is None
    assert len(metrics["groups"]) == 4
    assert f"test: {told}\n" in crossbias("evaluate", "runs/a")[1]
    assert crossbias("train", *OWN, "--bias", "hospital", *TINY, "--seed", "1", "--method",
                     "class-balanced", "--out", "runs/b")[0] == 0  # fmt: skip
    code, out, _ = crossbias("compare", "runs/a", "runs/b")
    assert code == 0
    assert f"By hospital: {told}." in out
    assert out.count("conflicting") == 2  # the title of the column, and the sentence


def test_a_damaged_test_image_is_found_before_the_training(crossbias):
    text = Path("labels.csv").read_text().splitlines()
    parts = ["split"] + ["train"] * 30 + ["test"] * 10
    Path("labels.csv").write_text(
        "".join(f"{line},{part}\n" for line, part in zip(text, parts, strict=True))
    )
    Path("x-rays/35.png").write_bytes(b"")
    code, _, err = crossbias("train", *OWN, *TINY, "--method", "erm", "--out", "runs/x")
    assert code == 2
    assert "labels.csv line 37: 35.png is not an image" in err
    assert not Path("runs").exists()


def test_options_of_a_folder_are_refused_elsewhere(crossbias):
    code, _, err = crossbias("train", "--data", "glyphs", "--labels", "x.csv", "--method", "erm")
    assert code == 2
    assert "has no parameter 'labels'" in err


def test_the_printed_command_trains_on_what_was_planted(crossbias):
    """Into grey images; the working folder has a table of labels of its own."""
    small = ["--set", "size=16", "--set", "channels=1"]
    own = ["folder:x-rays", *OWN[2:]]
    code, out, err = crossbias("data", "plant", *own, *small, "--cue", "patch", "--out", "a b")
    assert code == 0, err
    printed = next(line for line in out.splitlines() if line.startswith("next: crossbias "))
    words = shlex.split(printed.removeprefix("next: crossbias "))
    tiny = ["--network", "small-convnet", "--epochs", "1", "--device", "cpu", "--out", "run"]
    code, out, err = crossbias(*words, *tiny)
    assert code == 0, err
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert set(metrics) == {"validation", "test"}
    options = {"size": 16, "channels": 1}
    images = load("folder:x-rays", "test", labels="labels.csv", target="disease", **options)
    read = load("folder:a b", "test", labels="a b/labels.csv", target="target", **options)
    assert torch.equal(read.inputs, plant(images, bias="patch", rho=0.5).inputs)
    assert torch.equal(read.targets, images.targets)


def test_images_of_a_patient_are_a_cluster_from_training_to_comparison(crossbias):
    lines = Path("labels.csv").read_text().splitlines()
    patients = ["patient", *(f"p{number // 2}" for number in range(40))]
    Path("labels.csv").write_text(
        "".join(f"{line},{name}\n" for line, name in zip(lines, patients, strict=True))
    )
    code, out, err = crossbias("train", *OWN, "--cluster", "patient", *TINY)
    assert code == 0, err
    assert "values of patient are in several splits" in err
    run = "runs/folder-x-rays-erm-0"
    data = json.loads(Path(run, "config.json").read_text())["data"]
    assert (data["cluster"], data["group_by"]) == ("patient", None)
    cluster = load_predictions(Path(run, "predictions.npz"))["test"].cluster
    for command in ("evaluate", "compare"):
        code, out, err = crossbias(command, run)
        assert code == 0, err
        assert f"The 8 samples are in {len(cluster.unique())} clusters and say as much" in out
