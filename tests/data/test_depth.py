"""Values of 12 bits in files of 16 are scaled by what they use or by what is declared."""

from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

from crossbias.data import create_source
from crossbias.data.images import depth as depth_module
from crossbias.data.images.decoding import Fit, read_images
from crossbias.data.images.depth import WideImages
from crossbias.data.inspect.checking import check_source
from crossbias.data.inspect.sheet import _HEADER, _LABEL, CELL, EACH, contact_sheet
from crossbias.errors import CrossbiasError

COUNT = 20


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))


def scans(folder: Path, suffix: str = "png", largest: int = 4095) -> Path:
    """Flat gray images of 16 bits; only one image of the test split has the largest value."""
    folder.mkdir()
    lines = ["file,ill,place,split"]
    for number in range(COUNT):
        last = number == COUNT - 1
        values = np.full((8, 8), largest if last else largest * number // COUNT, np.uint16)
        Image.fromarray(values).save(folder / f"{number}.{suffix}")
        place = "north" if number % 3 else "south"
        split = "test" if number >= 15 else "train"
        lines.append(f"{number}.{suffix},{'yn'[number % 2]},{place},{split}")
    (folder / "labels.csv").write_text("\n".join(lines))
    return folder


def source(folder: Path, **options):
    own = {"labels": "labels.csv", "target": "ill", "bias": "place", "size": 8, "channels": 1}
    return create_source(f"folder:{folder}", **own | options)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_all_splits_are_scaled_by_the_bits_that_the_whole_data_set_uses(tmp_path, suffix):
    found = source(scans(tmp_path / "scans", suffix))
    train, test = found.load("train"), found.load("test")
    levels = [(4095 * number // COUNT) >> 4 for number in range(15)]
    assert train.inputs[:, 0, 0, 0].tolist() == levels
    assert int(test.inputs.max()) == 255
    assert train.origin["depth"] == test.origin["depth"] == 12


@pytest.mark.parametrize(("largest", "bits"), [(200, 8), (256, 9), (1023, 10), (65535, 16)])
def test_the_depth_is_the_smallest_number_of_bits_that_holds_the_largest_value(
    tmp_path, largest, bits
):
    data = source(scans(tmp_path / "scans", largest=largest)).load("test")
    assert data.origin["depth"] == bits
    assert int(data.inputs.max()) == largest >> (bits - 8)


def test_a_declared_depth_holds_and_has_pixels_of_its_own_in_the_cache(tmp_path):
    folder = scans(tmp_path / "scans")
    darkest = source(folder, depth=16).load("test")
    assert int(darkest.inputs.max()) == 15
    assert darkest.origin["depth"] == 16
    assert int(source(folder).load("test").inputs.max()) == 255
    assert int(source(folder, depth="14").load("test").inputs.max()) == 63
    with pytest.raises(CrossbiasError, match=r"depth .* must be in \[8, 16\], got 7"):
        source(folder, depth="7")


def test_a_value_above_the_declared_depth_is_refused_by_name(tmp_path):
    with pytest.raises(CrossbiasError, match=r"19.png has the value 4095, which needs 12 bits, bu"):
        source(scans(tmp_path / "scans"), depth=10).load("test")


def test_the_depth_of_a_run_holds_for_other_images(tmp_path):
    """As ``evaluate`` on other data does: the options of the training, with another path."""
    recorded = source(scans(tmp_path / "scans")).load("train").origin["depth"]
    other = source(scans(tmp_path / "other", largest=1000), depth=recorded).load("test")
    assert int(other.inputs.max()) == 1000 >> 4


def test_files_of_eight_bits_have_no_depth_and_keep_their_place_in_the_cache(tmp_path):
    folder = scans(tmp_path / "scans")
    for number in range(COUNT):
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(folder / f"{number}.png")
    data = source(folder).load("train")
    assert data.origin["depth"] is None
    expected, _ = read_images([folder / f"{number}.png" for number in range(15)], Fit(8, "crop", 1))
    assert torch.equal(data.inputs, expected)
    assert [path.name for path in (tmp_path / "cache").glob("crop-*")] == ["crop-8-1"]


def test_images_of_a_hugging_face_data_set_are_scaled_too(tmp_path):
    pictures = [Image.fromarray(np.full((8, 8), 200 * at, np.uint16)) for at in range(COUNT)]
    columns = {"picture": pictures, "ill": ["yn"[at % 2] for at in range(COUNT)]}
    features = datasets.Features(picture=datasets.Image(), ill=datasets.Value("string"))
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(tmp_path / "saved")
    options = {"target": "ill", "size": 8, "channels": 1, "validation": 0, "test": 0}
    data = create_source(f"hf:{tmp_path / 'saved'}", **options).load("train")
    assert data.inputs[:, 0, 0, 0].tolist() == [(200 * at) >> 4 for at in range(COUNT)]
    assert data.origin["depth"] == 12


def test_files_are_measured_once(tmp_path, monkeypatch):
    folder, opened = scans(tmp_path / "scans"), []
    real = depth_module.open_image
    monkeypatch.setattr(depth_module, "open_image", lambda f: opened.append(f) or real(f))
    assert source(folder).wide == source(folder).wide == WideImages(COUNT, 4095)
    assert len(opened) == COUNT
    Image.fromarray(np.full((9, 9), 9000, np.uint16)).save(folder / "3.png")
    assert source(folder).wide == WideImages(COUNT, 9000)


def test_check_says_what_was_found_what_is_assumed_and_how_to_declare_it(tmp_path):
    folder = scans(tmp_path / "scans")
    check = check_source(source(folder))
    assert check.errors == []
    assert (
        "20 images have 16 bits, and their largest value is 4,095; depth=12 is assumed, so that "
        "4,095 is white; declare the bits of your images with --set data.depth=12"
    ) in check.warnings
    assert not any("16 bits" in text for text in check_source(source(folder, depth=12)).warnings)


def test_check_warns_of_images_that_a_declared_depth_leaves_black(tmp_path):
    warnings = check_source(source(scans(tmp_path / "scans"), depth=16)).warnings
    assert any(
        "the brightest pixel is 15 of 255; is it --set data.depth=12?" in w for w in warnings
    )
    assert any(
        w.startswith("train: 15 of 15 images have no value above 15 of 255") for w in warnings
    )


def test_damaged_and_missing_files_are_errors_of_the_check_as_before(tmp_path):
    folder = scans(tmp_path / "scans")
    (folder / "3.png").write_bytes((folder / "3.png").read_bytes()[:40])
    check = check_source(source(folder))
    assert len(check.errors) == 1
    assert "3.png is " in check.errors[0]
    assert any("19 images have 16 bits" in text for text in check.warnings)
    (folder / "4.png").unlink()
    assert "4.png is missing" in check_source(source(folder)).errors[0]


def test_the_contact_sheet_shows_the_scaled_images(tmp_path):
    data = source(scans(tmp_path / "scans")).load("train").with_bias(None)
    sheet = contact_sheet(data)  # a row for each class, with the first images of it
    for row, first in ((0, 1), (1, 0)):
        shown = [
            sheet.getpixel((_LABEL + place * CELL + 10, _HEADER + row * CELL + 10))[0]
            for place in range(EACH)
        ]
        assert shown == [(4095 * (first + 2 * place) // COUNT) >> 4 for place in range(EACH)]
