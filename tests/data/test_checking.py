"""Checking a data set: damage of each kind is found, named, and counted right."""

from pathlib import Path

import pytest
from PIL import Image

from crossbias.data import create_source
from crossbias.data.bar import ACTIONS, TEST, TRAINING
from crossbias.data.checking import check_source


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))


def picture(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (3, 3), (number % 256, number // 256, 0)).save(path)


@pytest.fixture
def bar(tmp_path):
    """As many different images of each action as the original release has."""
    number = 0
    for split, counts in (("train", TRAINING), ("test", TEST)):
        for action, count in zip(ACTIONS, counts, strict=True):
            for i in range(count):
                picture(tmp_path / f"bar/{split}/{action}_{i}.png", number)
                number += 1
    return tmp_path


def test_complete_data_has_no_errors_and_all_published_counts(bar):
    check = check_source(create_source("bar"), root=bar)
    assert check.errors == []
    assert check.sizes == {"train": 1941, "test": 654}
    assert check.compared == 14
    assert check.warnings == ["train: setting is not known of 1,941 samples"]


def test_a_missing_image_is_a_wrong_count(bar):
    (bar / "bar/train/fishing_7.png").unlink()
    assert check_source(create_source("bar"), root=bar).errors == [
        "train: 1,940 of images, but 1,941 were published",
        "train: 162 of fishing, but 163 were published",
    ]


def test_broken_files_are_named_and_the_rest_is_looked_at(bar):
    (bar / "bar/test/diving_0.png").write_bytes(b"not an image")
    whole = (bar / "bar/test/racing_0.png").read_bytes()
    (bar / "bar/test/racing_0.png").write_bytes(whole[: len(whole) // 2])
    errors = check_source(create_source("bar"), root=bar).errors
    assert len(errors) == 2
    assert "diving_0.png is not an image" in errors[0]
    assert "racing_0.png is" in errors[1]


def test_a_file_in_two_splits_is_found_by_its_content(bar):
    content = (bar / "bar/train/climbing_3.png").read_bytes()
    (bar / "bar/test/vaulting_5.png").write_bytes(content)
    warnings = check_source(create_source("bar"), root=bar).warnings
    copies = [text for text in warnings if "are in train too" in text]
    assert len(copies) == 1
    assert copies[0].startswith("1 samples of test")
    assert "climbing_3.png" in copies[0]
    assert "vaulting_5.png" in copies[0]


def test_a_value_that_occurs_once_is_named(tmp_path):
    for name in ("1_0_0", "2_0_0", "3_1_1"):
        picture(tmp_path / f"bffhq/0.5pct/align/0/{name}.png", int(name[0]))
    picture(tmp_path / "bffhq/0.5pct/conflict/0/9_0_0.png", 9)
    for folder in ("valid", "test"):
        picture(tmp_path / f"bffhq/{folder}/5_0_1.png", 50)
    warnings = check_source(create_source("bffhq"), root=tmp_path).warnings
    assert "train: 1 values of gender occur once: male" in warnings


def test_generated_data_is_compared_by_its_samples():
    check = check_source(create_source("glyphs", size=50, test_size=20))
    assert check.sizes == {"train": 50, "validation": 20, "test": 20, "test-biased": 20}
    assert check.errors == []
    assert not any("too" in text for text in check.warnings)
