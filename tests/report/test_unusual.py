"""Runs that are not as usual, each with what the page does about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossbias.report.overlay import OVERLAY_SIDE, overlay
from crossbias.report.sample_pictures import sample_pictures, without_maps
from crossbias.runs.compare import read_runs
from crossbias.runs.files import read_json, write_json

WriteRun = Callable[..., Path]
Parse = Callable[[str], Any]
END = {"method": "end", "paper": "EnD", "supervision": "bias labels"}


def decoded(source: str) -> np.ndarray:
    import base64
    import io

    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source.split(",")[1]))).convert("L"))


def test_an_overlay_is_light_where_the_map_is_large() -> None:
    heat = torch.zeros(4, 4)
    heat[0, 3] = 0.2  # its largest, however small
    gray = decoded(overlay(torch.full((3, 40, 40), 128, dtype=torch.uint8), heat)).astype(float)
    assert gray.shape == (40, 40)
    assert gray[:5, 35:].mean() > gray[20:, :20].mean() + 60
    assert np.ptp(gray[20:, :20]) <= 1  # even where nothing is


def test_overlays_of_nothing_or_of_no_number_are_dark_and_large_ones_are_thinned() -> None:
    picture = torch.zeros(1, 300, 200, dtype=torch.uint8)
    dark = decoded(overlay(picture, torch.zeros(2, 2)))
    assert max(dark.shape) <= OVERLAY_SIDE
    assert np.array_equal(dark, decoded(overlay(picture, torch.full((2, 2), torch.nan))))


def test_models_without_maps_are_named_and_their_answers_shown(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    folders = [write_run("maps", views=True), write_run("mlp", method="mlp")]
    runs = read_runs(folders)
    assert [without_maps([run]) for run in runs] == [False, True]
    for pictures in sample_pictures([[run] for run in runs]).values():
        for picture in pictures:
            with_map, without = picture.answers
            assert with_map is not None
            assert without is not None
            assert with_map.map.startswith("data:image/png")
            assert without.map == ""
    page = parse(report(*folders))
    (section,) = (each for each in page.find("section") if each.find("h2")[0].text == "Pictures")
    assert "No maps for: mlp." in section.text
    maps = [image for image in section.find("img") if "evidence" in image.attributes["alt"]]
    assert len(maps) == 12


def test_other_attributes_and_further_measures_have_tables(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    folders = [
        write_run("a", attribute="size", side=0),
        write_run("b", **END, attribute="size", side=0),
    ]
    for folder, value in zip(folders, (0.25, 0.5), strict=True):
        metrics = read_json(folder / "metrics.json")
        metrics["test"]["calibration"] = {"value": value, "low": 0.1, "high": 0.9, "n": 270}
        write_json(folder / "metrics.json", metrics)
    root = parse(report(*folders))
    captions = {table.find("caption")[0].text: table for table in root.find("table")}
    assert "Accuracy on the test split, groups of class and size" in captions
    further = captions["Further measures on the test split"]
    measures = [button.text for button in further.find("button")][1:-3]
    assert measures == [
        *("Class averaged", "Biased", "Calibration", "Demographic parity", "Equalized odds")
    ]
    values = [cell.attributes.get("data-value") for cell in further.find("td")]
    assert values.count("0.25") == values.count("0.5") == 1


def test_groups_with_one_sample_are_called_too_small(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    root = parse(report(write_run("a", each=1, side=0)))
    assert "9 of 9 groups have fewer than 12 samples" in root.text
    assert "9 groups have samples, 1 each" in root.text
    large = parse(report(write_run("b", side=0)))
    assert "fewer than" not in large.text


def test_a_thousand_classes_make_a_page_of_bearable_size(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    names = tuple(f"class {number}" for number in range(1000))
    like = {"classes": names, "biases": ("red", "green"), "each": 1, "side": 0, "epochs": 1}
    page = report(write_run("a", **like))
    root = parse(page)
    assert "These are the 400 groups with the lowest accuracy, out of 2000." in root.text
    assert len(page.encode()) < 2**20


def test_runs_whose_alignment_nobody_knows_are_compared_by_group_only(
    write_run: WriteRun, report: Callable[..., str], parse: Parse
) -> None:
    folders = [write_run("a"), write_run("b", **END, conflicting=0.8)]
    for folder in folders:
        metrics = read_json(folder / "metrics.json")
        for each in metrics.values():
            each |= {"aligned": None, "conflicting": None, "aligned_groups": []}
        write_json(folder / "metrics.json", metrics)
    root = parse(report(*folders))
    assert "Which groups were aligned in training is not known, so accuracy is giv" in root.text
    heads = [button.text for button in root.find("table")[0].find("button")]
    assert heads[:5] == ["Method", "Overall", "Gain", "Worst of 9 groups", "Unbiased"]
    assert "It is not known which groups were aligned in training, so samples are" in root.text
    assert "associates no" not in root.text
