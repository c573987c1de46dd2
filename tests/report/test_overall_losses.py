"""A method that loses accuracy over all samples is named in every form of a comparison."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import one_hot

from crossbias.report import report as write_report
from crossbias.runs import compare, legend
from crossbias.runs.files import read_json, write_json
from crossbias.runs.stored import load_predictions, save_predictions

WriteRun = Callable[..., Path]
IE: dict[str, Any] = {"method": "ie", "paper": "IE"}


def losses(*folders: Path, **options: Any) -> list[str]:
    return [note for note in compare(folders, **options).notes if "points fewer of all" in note]


def with_answers(folder: Path, sizes: tuple[int, int], right: tuple[int, int]) -> Path:
    """The run with so many samples of each of two classes, of which the first ones are right."""
    splits = load_predictions(folder / "predictions.npz")
    target = torch.tensor([0] * sizes[0] + [1] * sizes[1])
    place = torch.cat([torch.arange(size) for size in sizes])
    answers = torch.where(place < torch.tensor(right)[target], target, 1 - target)
    known = place % 2
    splits["test"] = replace(
        splits["test"], index=torch.arange(len(target)), target=target, cluster=None,
        probabilities=one_hot(answers, 2).float(), attributes={"background": known},
        pictures=None, picture_rows=None,
    )  # fmt: skip
    save_predictions(folder / "predictions.npz", splits)
    metrics = read_json(folder / "metrics.json")
    names = {"classes": metrics["test"]["classes"], "values": metrics["test"]["biases"]}
    found = splits["test"].metrics(bias="background", alignment=torch.eye(2) > 0, **names)
    write_json(folder / "metrics.json", metrics | {"test": found.to_json()})
    return folder


def of_two_classes(
    write_run: WriteRun, sizes: tuple[int, int], rights: dict[str, tuple[int, int]]
) -> dict[str, Path]:
    """Runs by method, each with so many right answers of each class."""
    two = {"classes": ("Healthy", "COVID-19"), "biases": ("north", "south")}
    return {
        name: with_answers(write_run(name, **two, method=name), sizes, right)
        for name, right in rights.items()
    }


def test_a_loss_is_a_sentence_with_its_paired_interval_everywhere(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """Conflicting samples are two thirds: 10 points fewer of these are 6.7 fewer of all."""
    folders = [write_run("erm", conflicting=0.6), write_run("ie", **IE, conflicting=0.5)]
    found = compare(folders)
    gain = found.gains["IE"]["overall"]
    assert gain.value == pytest.approx(-0.2 / 3)
    (note,) = losses(*folders)
    assert note.startswith(
        f"IE is right on 6.7 points fewer of all samples than plain training (95% interval "
        f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}, the same samples). "
    )
    assert note in legend(found)
    for ending in ("html", "json", "md"):
        write_report(folders, tmp_path / f"report.{ending}")
    assert f'<p class="note">{note}</p>' in (tmp_path / "report.html").read_text()
    assert note in json.loads((tmp_path / "report.json").read_text())["notes"]
    assert "IE is right on 6.7 points fewer of all samples" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("method", "conflicting"),
    [({"method": "lff"}, 0.5), ({}, 0.57), ({}, 0.6), ({}, 0.9)],
    ids=["no plain training", "two points", "equal", "better"],
)
def test_what_is_no_loss_is_not_named(
    method: dict[str, str], conflicting: float, write_run: WriteRun
) -> None:
    folders = [
        write_run("erm", **method, conflicting=0.6),
        write_run("ie", **IE, conflicting=conflicting),
    ]
    assert not losses(*folders)


def test_a_loss_is_named_whatever_metric_is_shown(write_run: WriteRun) -> None:
    folders = [write_run("erm", conflicting=0.6), write_run("ie", **IE, conflicting=0.3)]
    assert losses(*folders, metrics=["unbiased"]) == losses(*folders)
    assert len(losses(*folders)) == 1


def test_the_interval_is_corrected_for_the_number_of_rows(write_run: WriteRun) -> None:
    folders = [
        write_run("erm", conflicting=0.6),
        write_run("ie", **IE, conflicting=0.3),
        write_run("lff", method="lff", conflicting=0.7),
    ]
    (note,) = losses(*folders)
    gain = compare(folders).gains["IE"]["overall"]
    assert f"{gain.low * 100:+.1f} to {gain.high * 100:+.1f}, corrected for 2 comparisons" in note


def test_a_shift_between_classes_is_told_from_a_loss_in_both(write_run: WriteRun) -> None:
    """Of 2,000 and 400 samples, plain training is right on 90 and 40%."""
    rights = {"erm": (1800, 160), "pgd": (1500, 340), "ie": (1600, 120)}
    runs = of_two_classes(write_run, (2000, 400), rights)
    (shifted,) = losses(runs["erm"], runs["pgd"])
    assert shifted.startswith("pgd is right on 5.0 points fewer of all samples")
    assert "Averaged over the classes, the difference is +15.0 points" in shifted
    assert "Judge it by the class average" in shifted
    (lost,) = losses(runs["erm"], runs["ie"])
    assert "Averaged over the classes, the difference is -10.0 points" in lost
    assert "has learned the classes less well" in lost


def test_a_loss_in_the_class_average_that_may_be_chance_is_called_that(
    write_run: WriteRun,
) -> None:
    """Of 2,000 and 20 samples: the few of one class decide about the class average."""
    runs = of_two_classes(write_run, (2000, 20), {"erm": (1800, 10), "ie": (1700, 9)})
    (note,) = losses(*runs.values())
    assert re.search(
        r"Averaged over the classes, the difference is -5\.0 points \(95% interval -[\d.]+ to "
        r"\+[\d.]+\), which may be chance: train more seeds of both",
        note,
    )
    assert "learned the classes less well." not in note


def test_a_loss_that_may_be_chance_is_called_that(write_run: WriteRun) -> None:
    """Seven of 60 samples change: two answers become right, and five wrong."""
    runs = of_two_classes(write_run, (30, 30), {"erm": (20, 20), "ie": (15, 22)})
    (note,) = losses(*runs.values())
    assert note.endswith("That may be chance: train more seeds of both.")
