"""What is printed about a table says what is shown, and no more."""

import numpy as np
import pytest

from crossbias import verify_table
from crossbias.answers.answers_page import render_page
from crossbias.answers.grids_of_answers import gain_grid, main_grid, scan_lines, value_grid
from crossbias.answers.verification import Verification
from crossbias.answers.words import about_models, class_mix_lines, summary_of


def patients(**changed: object) -> Verification:
    """Two models, 60 patients with five images each, of two hospitals."""
    draw = np.random.default_rng(0)
    patient = np.repeat(np.arange(90), 5)
    ill, hospital = (draw.integers(0, 2, 90)[patient] for _ in range(2))
    score = 2 * (ill - 0.5) + draw.normal(size=(2, 450))
    columns = {
        "y": np.where(ill, "ill", "well"),
        "first": 1 / (1 + np.exp(-2 * score[0])),
        "second": 1 / (1 + np.exp(-2 * score[1])),
        "hospital": np.where(hospital, "north", "south"),
        "patient": patient,
        "split": np.where(patient < 60, "test", "validation"),
    }
    return verify_table(
        columns, target="y", prediction=["first", "second"], bias="hospital", cluster="patient",
        split_column="split", positive="ill", **changed,
    )  # fmt: skip


def hospitals(number: int) -> Verification:
    """One model that is as good in every hospital."""
    draw = np.random.default_rng(0)
    ill = draw.integers(0, 2, 40 * number)
    answers = np.where(draw.random(len(ill)) < 0.85, ill, 1 - ill)
    columns = {"y": ill, "p": answers, "hospital": draw.integers(0, number, len(ill))}
    return verify_table(columns, target="y", prediction="p", bias="hospital")


def test_the_prevalence_is_said_where_models_have_thresholds_of_their_own() -> None:
    said = about_models(patients(threshold="sensitivity>=.9", prevalence=0.1))
    assert sum("is called ill from a probability of" in line for line in said) == 2
    assert "PPV and NPV hold where 10.0% are ill." in said


def test_what_is_no_share_is_named_and_values_are_said_to_stand_alone() -> None:
    found = patients()
    assert main_grid(found).title.endswith(
        "%, AUC and Brier score and calibration slope as they are [95% interval]"
    )
    grid, _ = value_grid(found, ("hospital",), most=20, among=("accuracy",))
    assert grid.title == "By hospital: % [95% interval of each value by itself]"
    assert gain_grid(found).title.endswith("[95% interval, of each value by itself]")


def test_a_test_is_named_where_there_is_one() -> None:
    assert "McNemar" not in render_page(patients(), gates=())  # none with clusters
    columns = {"y": [0, 1] * 20, "p": [0, 1] * 20, "q": [0, 0] * 20}
    found = verify_table(columns, target="y", prediction=["p", "q"])
    assert "p is from McNemar's exact test." in render_page(found, gates=())


def test_the_lowest_of_many_values_are_said_to_be_low_by_chance(crossbias, tmp_path) -> None:
    found = hospitals(30)
    assert found.first.scan.flagged == ()
    assert ", over" not in scan_lines(found)[0]  # one attribute
    lines = ["y,p,h", *(f"1,{int(n % 7 > 0)},{n % 30}" for n in range(900))]
    (tmp_path / "many.csv").write_text("\n".join(lines))
    options = ("--target", "y", "--prediction", "p", "--bias", "h", "--classes", "0,1")
    _, said, _ = crossbias("verify", "many.csv", *options)
    assert "10 more values with higher accuracies" in said
    assert "The lowest of many values are low by chance, too" in said


@pytest.fixture(scope="module")
def simpson() -> Verification:
    """Recalls of 95 and 60%, whatever the hospital; the hard class is mostly in one of them."""
    sizes = {("a", "north"): 900, ("a", "south"): 100, ("b", "south"): 300, ("b", "north"): 700}
    recall = {"a": 0.95, "b": 0.6}
    rows = [
        (target, target if place < recall[target] * n else "ab".replace(target, ""), value)
        for (target, value), n in sizes.items()
        for place in range(n)
    ]
    columns = dict(zip("yph", zip(*rows, strict=True), strict=True))
    return verify_table(
        columns, target="y", prediction="p", bias="h", aligned={"a": "north", "b": "south"}
    )


def test_classes_that_explain_a_difference_are_named(simpson: Verification) -> None:
    (said,) = class_mix_lines(simpson)
    assert said.startswith("p, by h: accuracy on aligned samples minus that on conflicting ones is")
    assert "but +0.0 points within a class" in said
    (summary,) = summary_of(simpson, ())
    assert (
        "The values may differ in their classes: within a class, no difference is clear" in summary
    )


def test_images_of_one_patient_do_not_make_a_group_stand_out() -> None:
    """The only patient of a hospital is answered wrongly 40 times; all others have one image."""
    patient = [*range(200), *[200] * 40]
    columns = {
        "y": ["ill"] * 240,
        "p": [*(["ill"] * 9 + ["well"]) * 20, *["well"] * 40],
        "hospital": [*["north", "south"] * 100, *["far"] * 40],
        "patient": patient,
    }
    about = {"target": "y", "prediction": "p", "bias": "hospital", "classes": ["ill", "well"]}
    alone = verify_table(columns, **about)
    assert [group.value for group in alone.first.scan.flagged] == ["far"]
    assert verify_table(columns, **about, cluster="patient").first.scan.flagged == ()
