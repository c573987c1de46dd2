"""Checking a data set: every kind of damage is found, named and counted."""

import os
from pathlib import Path

import pytest
from PIL import Image

from crossbias.data import create_source
from crossbias.data.images.decoding import FORMATS
from crossbias.data.inspect.checking import check_source
from crossbias.data.published.bar import ACTIONS, TEST, TRAINING
from crossbias.data.published.kinetics import ACTIONS as VIDEO_ACTIONS
from crossbias.data.published.kinetics import FOLDERS


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
    assert check.warnings == ["train: setting is unknown for 1,941 of 1,941 samples"]


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
    copies = [text for text in warnings if "are also in train" in text]
    assert len(copies) == 1
    assert copies[0].startswith("1 of 654 samples of test")
    assert "climbing_3.png" in copies[0]
    assert "vaulting_5.png" in copies[0]


def test_a_value_that_occurs_once_is_named(tmp_path):
    for name in ("1_0_0", "2_0_0", "3_1_1"):
        picture(tmp_path / f"bffhq/0.5pct/align/0/{name}.png", int(name[0]))
    picture(tmp_path / "bffhq/0.5pct/conflict/0/9_0_0.png", 9)
    for folder in ("valid", "test"):
        picture(tmp_path / f"bffhq/{folder}/5_0_1.png", 50)
    warnings = check_source(create_source("bffhq"), root=tmp_path).warnings
    assert "train: values of gender that occur once: male" in warnings


def test_generated_data_is_compared_by_its_samples():
    check = check_source(create_source("glyphs", size=50, test_size=20))
    assert check.sizes == {"train": 50, "validation": 20, "test": 20, "test-biased": 20}
    assert check.errors == []
    assert not any("also in" in text for text in check.warnings)


@pytest.fixture
def birds(tmp_path):
    """Own images with a table: landbirds and waterbirds, some on the other's background."""
    lines = ["file,bird,place,camera,split"]
    for number in range(20):
        picture(tmp_path / f"birds/{number}.png", number)
        bird, split = ("land", "water")[number % 2], ("train", "test")[number >= 12]
        place = "water" if number in (0, 1, 12, 15) else bird
        camera = "old" if number == 4 else "new"
        lines.append(f"{number}.png,{bird},{place},{camera},{split}")
    (tmp_path / "birds/labels.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "birds"


def check_birds(birds, **options):
    own = {"labels": "labels.csv", "target": "bird", "bias": "place", "attributes": "camera"}
    return check_source(create_source(f"folder:{birds}", **(own | options)))


def test_own_images_are_decoded_anew_and_named_with_file_and_row(birds):
    assert check_birds(birds).errors == []
    create_source(f"folder:{birds}", labels="labels.csv", target="bird", size=8).load("train")
    for number in (3, 17):
        status = (birds / f"{number}.png").stat()
        (birds / f"{number}.png").write_bytes(b"x" * status.st_size)
        os.utime(birds / f"{number}.png", ns=(status.st_atime_ns, status.st_mtime_ns))
    formats = " (" + ", ".join(name for name in FORMATS if name in Image.OPEN) + ", DICOM)"
    assert check_birds(birds, size="8").errors == [
        f"train: labels.csv line 5: 3.png is not an image{formats}",
        f"test: labels.csv line 19: 17.png is not an image{formats}",
    ]


def test_own_files_that_are_missing_are_said_once_and_the_labels_are_still_looked_at(birds):
    (birds / "15.png").unlink()
    check = check_birds(birds)
    assert len(check.errors) == 1
    assert "labels.csv line 17: 15.png is missing" in check.errors[0]
    assert check.sizes == {"train": 12, "test": 8}
    assert "train: values of camera that occur once: old" in check.warnings


def test_an_own_image_in_two_splits_is_named_with_both_rows(birds):
    (birds / "14.png").write_bytes((birds / "2.png").read_bytes())
    assert check_birds(birds).warnings[-1] == (
        "1 of 8 samples of test are also in train: labels.csv line 4: 2.png = "
        "labels.csv line 16: 14.png"
    )


def test_a_class_that_occurs_once_and_one_without_conflicts_are_named(birds):
    table = (birds / "labels.csv").read_text()
    (birds / "labels.csv").write_text(table.replace("2.png,land,land", "2.png,rail,land", 1))
    warnings = check_birds(birds).warnings
    assert "train: values of target that occur once: rail" in warnings
    assert "train: no sample of rail, water conflicts with its place" in warnings


def test_a_clip_without_frames_is_reported_and_the_others_are_looked_at(tmp_path):
    number = 0
    for folder in FOLDERS.values():
        for action in VIDEO_ACTIONS:
            picture(tmp_path / folder / action / "a" / "0.png", number)
            number += 1
    (tmp_path / "mimetics-10/writing/empty").mkdir()
    (tmp_path / "mimetics-10/writing/a/0.png").write_bytes(b"no image")
    check = check_source(create_source("kinetics-10"), root=tmp_path)
    assert check.sizes == {"train": 10, "validation": 10, "test": 11}
    assert "mimetics-10/writing/empty is a folder without image files" in check.errors[0]
    assert "mimetics-10/writing/a/0.png is not an image" in check.errors[1]


def test_labels_that_are_missing_by_class_are_named_with_their_counts(tmp_path):
    """All 20 dogs have no place, and every fourth of 40 cats."""
    places = [("cat", ("", "sofa", "lawn", "bed")[number % 4]) for number in range(40)]
    places += [("dog", "")] * 20
    lines = ["file,animal,place,split"]
    for number, (animal, place) in enumerate(places):
        picture(tmp_path / f"{number}.png", number)
        lines.append(f"{number}.png,{animal},{place},train")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    source = create_source(
        f"folder:{tmp_path}", labels=str(tmp_path / "labels.csv"), target="animal", bias="place"
    )
    found = [text for text in check_source(source).warnings if "depends on the class" in text]
    assert found == [
        "train: whether place is known depends on the class: it is missing for 100.0% of dog (20 "
        "of 20), but for 25.0% of cat (10 of 40) (p<.001, permutation test); numbers by group "
        "leave these samples out"
    ]
