"""A predictions file of a scikit-learn model: fairlearn, scikit-learn and scipy say the same."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import (
    MetricFrame,
    count,
    demographic_parity_difference,
    equalized_odds_difference,
    selection_rate,
    true_negative_rate,
    true_positive_rate,
)
from scipy.stats import binomtest, fisher_exact
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    precision_score,
    roc_auc_score,
)

from crossbias.answers import verify_table

RATES = {
    "accuracy": accuracy_score,
    "selection_rate": selection_rate,
    "sensitivity": true_positive_rate,
    "specificity": true_negative_rate,
    "ppv": lambda y, p, **more: precision_score(y, p, pos_label=1, **more),
}


def binary(column: pd.Series) -> np.ndarray:
    return (column == "malignant").to_numpy().astype(int)


def frame_of(table: pd.DataFrame, features: list[str]) -> MetricFrame:
    return MetricFrame(
        metrics=RATES | {"n": count},
        y_true=binary(table["y"]),
        y_pred=binary(table["answer"]),
        sensitive_features=table[features],
    )


@pytest.fixture(scope="module")
def judged(tumors: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The JSON of the command line, from a file."""
    import sys

    from crossbias.cli import main

    folder = tmp_path_factory.mktemp("tumors")
    tumors.to_csv(folder / "predictions.csv", index=False)
    arguments = ["verify", str(folder / "predictions.csv"), "--target", "y", "--prediction", "p"]
    arguments += ["--bias", "size", "--bias", "texture", "--intersections", "2"]
    arguments += ["--positive", "malignant", "-o", str(folder / "found.json")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["crossbias", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
    assert not left.value.code
    return json.loads(Path(folder / "found.json").read_text())


@pytest.mark.parametrize(
    ("place", "features"), [(0, ["size"]), (1, ["texture"]), (2, ["size", "texture"])]
)
def test_every_group_has_the_numbers_of_metric_frame(
    judged: dict, tumors: pd.DataFrame, place: int, features: list[str]
) -> None:
    frame = frame_of(tumors, features)
    attribute = judged["models"][0]["attributes"][place]
    assert attribute["columns"] == features
    assert len(attribute["values"]) == len(frame.by_group)
    for value in attribute["values"]:
        names = value["value"].split(" & ")
        expected = frame.by_group.loc[names[0] if len(names) == 1 else tuple(names)]
        assert value["n"] == expected["n"]
        for name in RATES:
            assert value[name]["value"] == pytest.approx(expected[name]), (value["value"], name)
    for name in ("accuracy", "selection_rate", "sensitivity", "specificity"):
        gap = attribute["gaps"][name]
        assert gap["value"] == pytest.approx(frame.difference()[name])
        assert gap["low"] <= gap["value"] <= gap["high"]
    answers = {"y_true": binary(tumors["y"]), "y_pred": binary(tumors["answer"])}
    gaps = {"demographic_parity": demographic_parity_difference}
    gaps["equalized_odds"] = equalized_odds_difference
    for name, function in gaps.items():
        known = function(**answers, sensitive_features=tumors[features])
        assert attribute["metrics"][name]["value"] == pytest.approx(known)


def test_the_numbers_over_all_samples_are_those_of_scikit_learn(
    judged: dict, tumors: pd.DataFrame
) -> None:
    numbers = judged["models"][0]["numbers"]
    truth, answers, scores = binary(tumors["y"]), binary(tumors["answer"]), tumors["p"]
    assert numbers["accuracy"]["value"] == accuracy_score(truth, answers)
    expected = balanced_accuracy_score(truth, answers)
    assert numbers["class_averaged"]["value"] == pytest.approx(expected)
    assert numbers["auc"]["value"] == pytest.approx(roc_auc_score(truth, scores))
    assert numbers["brier"]["value"] == pytest.approx(brier_score_loss(truth, scores))


def test_ranking_in_each_group_is_that_of_scikit_learn(judged: dict, tumors: pd.DataFrame) -> None:
    for value in judged["models"][0]["attributes"][0]["values"]:
        rows = tumors["size"] == value["value"]
        truth, scores = binary(tumors["y"][rows]), tumors["p"][rows]
        assert value["auc"]["value"] == pytest.approx(roc_auc_score(truth, scores))
        assert value["brier"]["value"] == pytest.approx(brier_score_loss(truth, scores))


def test_flagged_groups_have_fishers_p_corrected_for_all_groups(
    judged: dict, tumors: pd.DataFrame
) -> None:
    """Each group of at least 12 samples against the other samples of its class, by scipy."""
    right = tumors["answer"] == tumors["y"]
    joint = tumors["size"] + " & " + tumors["texture"]
    tests = {}
    for column in (tumors["size"], tumors["texture"], joint):
        for target in ("benign", "malignant"):
            of_class = tumors["y"] == target
            for value in sorted(set(column)):
                group, others = of_class & (column == value), of_class & (column != value)
                if group.sum() >= 12:
                    table = [[right[rows].sum(), (~right[rows]).sum()] for rows in (group, others)]
                    p = fisher_exact(table, alternative="less").pvalue
                    lower = right[group].mean() < right[others].mean()
                    tests[value, target] = p if lower else 1.0
    ranked = sorted(tests.values())
    holm = [min(1, max((len(ranked) - k) * p for k, p in enumerate(ranked[: at + 1])))
            for at in range(len(ranked))]  # fmt: skip
    expected = {key: holm[ranked.index(p)] for key, p in tests.items() if p < 1}
    flagged = judged["models"][0]["scan"]["flagged"]
    assert judged["models"][0]["scan"]["tested"] == len(tests)
    assert {(each["value"], each["target"]) for each in flagged} == {
        key for key, p in expected.items() if p < 0.05
    }
    assert flagged
    for each in flagged:
        assert each["p"] == pytest.approx(expected[each["value"], each["target"]])


def test_models_are_compared_on_the_same_samples(tumors: pd.DataFrame) -> None:
    found = verify_table(
        tumors, target="y", prediction=["p", "q"], bias="size", positive="malignant"
    )
    right = [(tumors[name] >= 0.5) == (tumors["y"] == "malignant") for name in ("p", "q")]
    gain = found.gains[0]
    assert (gain.model, gain.number, gain.attribute) == ("q", "accuracy", ())
    assert gain.gain.value == pytest.approx(right[1].mean() - right[0].mean())
    only = [int((right[a] & ~right[b]).sum()) for a, b in ((0, 1), (1, 0))]
    assert gain.test is not None
    assert gain.test.p == pytest.approx(binomtest(only[0], sum(only)).pvalue)
    by_value = {each.value: each.gain for each in found.gains if each.attribute == ("size",)}
    for value, each in by_value.items():
        rows = tumors["size"] == value
        assert each.value == pytest.approx(right[1][rows].mean() - right[0][rows].mean())
        assert each.n == rows.sum()
    sensitivity = next(each.gain for each in found.gains if each.number == "sensitivity")
    ill = tumors["y"] == "malignant"
    assert sensitivity.value == pytest.approx(right[1][ill].mean() - right[0][ill].mean())
    ranking = next(each.gain for each in found.gains if each.number == "auc")
    expected = roc_auc_score(ill, tumors["q"]) - roc_auc_score(ill, tumors["p"])
    assert ranking.value == pytest.approx(expected)
    assert ranking.low < ranking.value < ranking.high
