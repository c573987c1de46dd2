"""``crossbias data``: what it prints, what it writes, how it ends."""

import csv
import os
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from crossbias import load
from crossbias.cli import app
from crossbias.data.images.decoding import Fit, read_images
from crossbias.errors import CrossbiasError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))


def run(*arguments: str):
    return CliRunner().invoke(app, ["data", *arguments], catch_exceptions=False)


SMALL = ("--set", "size=200", "--set", "test_size=100")


def test_list_names_every_data_set():
    output = run("list").output
    for name in ("glyphs", "celeba", "bar", "waterbirds", "imagenet-9", "covid-cxr"):
        assert name in output


def test_list_shortens_the_many_splits_of_imagenet():
    output = run("list").output
    assert "test-c-jpeg_compression-5" in output
    assert "(78" in output
    assert "test-c-snow-3" not in output


def test_show_prints_counts_association_and_hash_and_writes_a_sheet(tmp_path):
    result = run("show", "glyphs", *SMALL, "--set", "rho=1.0")
    data = load("glyphs", "train", size=200, rho=1.0)
    assert result.exit_code == 0
    assert "glyphs train: 200 samples of 3 x 28 x 28" in result.output
    assert data.hash in result.output
    assert "Cramer's V with the target 1.000 (the bias)" in result.output
    assert "20*" in result.output
    with Image.open(tmp_path / "glyphs-train.png") as sheet:
        assert sheet.width > 500


def test_check_ends_with_zero_on_sound_data():
    result = run("check", "glyphs", *SMALL)
    assert result.exit_code == 0
    assert "train: 200 samples" in result.output
    assert "errors: 0" in result.output


def test_check_ends_with_one_on_wrong_counts(tmp_path):
    for split in ("train", "test"):
        folder = tmp_path / "bar" / split
        folder.mkdir(parents=True)
        Image.new("RGB", (4, 4), (1, 2, 3) if split == "train" else (4, 5, 6)).save(
            folder / "diving_0.png"
        )
    result = run("check", "bar", "--root", str(tmp_path))
    assert result.exit_code == 1
    assert "error: train: 1 of images, but 1,941 were published" in result.output


def test_plant_writes_a_folder_with_labels(tmp_path):
    result = run("plant", "glyphs", *SMALL, "--cue", "patch", "--rho", "0.9", "--out", "planted")
    assert result.exit_code == 0
    assert (
        "next: crossbias train --data folder:planted --labels planted/labels.csv --target target "
        "--bias patch --set data.size=28 --method erm\n"
    ) in result.output
    with open(tmp_path / "planted/labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    train = [row for row in rows if row["split"] == "train"]
    assert len(train) == 200
    aligned = sum(row["patch"] == f"patch {row['target']}" for row in train)
    assert aligned == 180
    test = [row for row in rows if row["split"] == "test"]
    assert sum(row["patch"] == f"patch {row['target']}" for row in test) == 10
    with Image.open(tmp_path / "planted" / rows[0]["file"]) as image:
        assert image.size == (28, 28)


def test_plant_refuses_an_unknown_cue_and_an_existing_folder(tmp_path):
    with pytest.raises(CrossbiasError, match=r"there is no cue 'colour' \(did you mean 'color'"):
        run("plant", "glyphs", *SMALL, "--cue", "colour", "--out", "planted")
    (tmp_path / "there").mkdir()
    with pytest.raises(CrossbiasError, match="there exists already"):
        run("plant", "glyphs", *SMALL, "--cue", "color", "--out", "there")


def test_the_cache_is_checked_against_its_digests(crossbias):
    Image.new("RGB", (8, 8), "red").save("a.png")
    read_images([Path("a.png")], Fit(8))
    code, out, _ = crossbias("data", "check", "--cache")
    assert (code, out.endswith("1 shards, 0.00 GB, errors: 0\n")) == (0, True)
    (pixels,) = Path("cache").glob("*/*/pixels")
    status, content = pixels.stat(), bytearray(pixels.read_bytes())
    content[5] ^= 1
    pixels.write_bytes(content)
    os.utime(pixels, ns=(status.st_atime_ns, status.st_mtime_ns))  # as if nothing had happened
    code, out, _ = crossbias("data", "check", "--cache")
    assert code == 1
    assert f"error: {pixels.parent.resolve()}: its pixels are not those that were decoded" in out
    pixels.write_bytes(content[:-1])
    assert "do not have the recorded shape" in crossbias("data", "check", "--cache")[1]
    pixels.unlink()
    assert "its pixels are missing" in crossbias("data", "check", "--cache")[1]


def test_a_check_of_nothing_is_refused(crossbias):
    assert "name the data set to check" in crossbias("data", "check")[2]
