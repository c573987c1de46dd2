"""Weights: the numbers of fairlearn and scikit-learn with weights, and intervals that hold."""

import numpy as np
import pandas as pd
import pytest
import torch
from fairlearn.metrics import MetricFrame, selection_rate, true_negative_rate, true_positive_rate
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, precision_score, roc_auc_score

from crossbias.answers import verify_table
from crossbias.answers.verification import Verification
from crossbias.verify.clusters import shares_by
from crossbias.verify.positives import auc, brier_score, calibration_slope

CHOSEN = {"target": "y", "bias": "size", "positive": "malignant", "prediction": "p"}


@pytest.fixture(scope="module")
def found(tumors: pd.DataFrame) -> Verification:
    return verify_table(tumors, **CHOSEN, weight="weight")


def test_every_group_has_the_weighted_numbers_of_metric_frame(
    found: Verification, tumors: pd.DataFrame
) -> None:
    truth, answers = (tumors[name] == "malignant" for name in ("y", "answer"))
    metrics = {
        "accuracy": accuracy_score,
        "selection_rate": selection_rate,
        "sensitivity": true_positive_rate,
        "specificity": true_negative_rate,
        "ppv": precision_score,
    }
    frame = MetricFrame(
        metrics=metrics,
        y_true=truth.astype(int),
        y_pred=answers.astype(int),
        sensitive_features=tumors["size"],
        sample_params={name: {"sample_weight": tumors["weight"]} for name in metrics},
    )
    attribute = found.first.attributes[("size",)]
    for value in attribute.values:
        for name in metrics:
            expected = frame.by_group.loc[value.value][name]
            assert value.numbers[name].value == pytest.approx(expected), name
            assert value.numbers[name].low <= expected <= value.numbers[name].high
    for name in ("accuracy", "sensitivity"):
        assert attribute.gaps[name].value == pytest.approx(frame.difference()[name])
        overall = found.first.numbers[name].value
        assert overall == pytest.approx(frame.overall[name])
    odds = max(frame.difference()[name] for name in ("sensitivity", "specificity"))
    assert attribute.metrics.equalized_odds is not None
    assert attribute.metrics.equalized_odds.value == pytest.approx(odds)


def test_ranking_and_probabilities_are_those_of_scikit_learn(
    found: Verification, tumors: pd.DataFrame
) -> None:
    truth, weight = (tumors["y"] == "malignant").astype(int), tumors["weight"]
    numbers = found.first.numbers
    expected = roc_auc_score(truth, tumors["p"], sample_weight=weight)
    assert numbers["auc"].value == pytest.approx(expected)
    expected = brier_score_loss(truth, tumors["p"], sample_weight=weight)
    assert numbers["brier"].value == pytest.approx(expected)
    logit = np.log(tumors["p"] / (1 - tumors["p"])).to_numpy()[:, None]
    model = LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(logit, truth, weight)
    assert numbers["slope"].value == pytest.approx(model.coef_[0, 0], rel=1e-4)


def test_equal_weights_change_nothing(tumors: pd.DataFrame) -> None:
    plain = verify_table(tumors, **CHOSEN).first
    equal = verify_table(tumors.assign(weight=3.0), **CHOSEN, weight="weight").first
    for name, number in plain.numbers.items():
        assert equal.numbers[name] == pytest.approx(number, abs=2e-3), name
        assert equal.numbers[name].value == pytest.approx(number.value)
    groups = zip(
        plain.attributes[("size",)].metrics.groups,
        equal.attributes[("size",)].metrics.groups,
        strict=True,
    )
    for one, other in groups:
        assert one.accuracy == pytest.approx(other.accuracy)


def test_a_sample_that_counts_twice_gives_the_value_of_two_samples() -> None:
    """But not their certainty."""
    draw = np.random.default_rng(0)
    truth, scores = draw.integers(0, 2, 200), draw.random(200)
    scores = (2 * scores + truth) / 3
    twice = draw.integers(1, 3, 200)
    rows = np.repeat(np.arange(200), twice)
    weighted = (torch.tensor(scores), torch.tensor(truth) > 0)
    repeated = tuple(column[torch.tensor(rows)] for column in weighted)
    for function in (auc, brier_score):
        one = function(*weighted, weight=torch.tensor(twice).double())
        other = function(*repeated)
        assert one.value == pytest.approx(other.value)
        assert one.high - one.low > other.high - other.low
    one = calibration_slope(*weighted, weight=torch.tensor(twice).double())
    other = calibration_slope(*repeated)
    assert one is not None
    assert other is not None
    assert one.slope.value == pytest.approx(other.slope.value, rel=1e-6)


def test_intervals_of_weighted_shares_cover_the_truth() -> None:
    """A stratum that is sampled at a tenth and weighs ten times as much has another accuracy."""
    draw, covered, trials = np.random.default_rng(1), 0, 400
    truth = 0.5 * 0.95 + 0.5 * 0.6  # two strata of the same size
    for _ in range(trials):
        right = np.concatenate([draw.random(400) < 0.95, draw.random(40) < 0.6])
        weight = np.repeat([1.0, 10.0], [400, 40])
        (share,) = shares_by(
            torch.tensor(right), torch.zeros(440).long(), 1, weight=torch.tensor(weight)
        )
        covered += share.low <= truth <= share.high
    assert covered >= 0.92 * trials


def test_weights_and_clusters_together_are_wider_than_either(tumors: pd.DataFrame) -> None:
    ways: list[dict[str, str]] = [
        {},
        {"weight": "weight"},
        {"weight": "weight", "cluster": "patient"},
    ]
    widths = []
    for way in ways:
        number = verify_table(tumors, **CHOSEN, **way).first.metrics.overall
        widths.append(number.high - number.low)
    assert widths[0] < widths[1] <= widths[2]


def test_gains_are_weighted_too(tumors: pd.DataFrame) -> None:
    chosen = CHOSEN | {"prediction": ["p", "q"]}
    found = verify_table(tumors, **chosen, weight="weight")
    ill = tumors["y"] == "malignant"
    gained = ((tumors["q"] >= 0.5) == ill).astype(int) - ((tumors["p"] >= 0.5) == ill).astype(int)
    rows = {
        ("accuracy", ""): ill | True,
        ("sensitivity", ""): ill,
        ("accuracy", "large"): tumors["size"] == "large",
    }
    gains = {(each.number, each.value): each for each in found.gains}
    for key, chosen_rows in rows.items():
        expected = np.average(gained[chosen_rows], weights=tumors["weight"][chosen_rows])
        assert gains[key].gain.value == pytest.approx(expected)
        assert gains[key].gain.low < expected < gains[key].gain.high
        assert gains[key].test is None
    equal = verify_table(tumors.assign(weight=2.0), **chosen, weight="weight").gains
    plain = [each for each in verify_table(tumors, **chosen).gains if each.number != "auc"]
    for one, other in zip(equal, plain, strict=True):
        assert one.gain == pytest.approx(other.gain, abs=3e-3)
