"""A named positive class: its rates, thresholds and probabilities, against scikit-learn."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import (
    brier_score_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)

from crossbias.errors import CrossbiasError
from crossbias.verify import Metrics, Positive, Threshold, calibration_slope, verify
from crossbias.verify.detection import detect
from crossbias.verify.positives import cluster_effect
from crossbias.verify.thresholds import Labeled, answers_at, chosen_threshold

CLASSES = ("healthy", "COVID-19", "other")


def answers(classes: int = 3) -> dict[str, Any]:
    """Probabilities that know something, on 300 samples of two hospitals."""
    draw = np.random.default_rng(0)
    target = draw.integers(0, classes, 300)
    logits = draw.normal(0, 1.5, (300, classes)) + 1.5 * np.eye(classes)[target]
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return {
        "target": target,
        "prediction": probabilities,
        "classes": CLASSES[:classes],
        "attributes": {"hospital": np.where(draw.random(300) < 0.4, "north", "south")},
    }


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("classes", [2, 3])
def test_everything_equals_scikit_learn_on_all_samples_and_by_bias(
    positive: int, classes: int
) -> None:
    given = answers(classes)
    found = verify(**given, positive=CLASSES[positive]).detection
    assert found is not None
    place = given["attributes"]["hospital"]
    parts = {"north": place == "north", "south": place == "south"}
    assert set(found.by_bias) == set(parts)
    for rates, rows in [
        (found.overall, place != ""),
        *((found.by_bias[n], parts[n]) for n in parts),
    ]:
        truth = given["target"][rows] == positive
        scores = given["prediction"][rows, positive]
        called = given["prediction"][rows].argmax(1) == positive
        assert rates.sensitivity.value == pytest.approx(recall_score(truth, called))
        assert rates.specificity.value == pytest.approx(recall_score(~truth, ~called))
        assert rates.ppv.value == pytest.approx(precision_score(truth, called))
        assert rates.npv.value == pytest.approx(precision_score(~truth, ~called))
        assert rates.prevalence == pytest.approx(truth.mean())
        assert rates.auc is not None
        assert rates.brier is not None
        assert rates.slope is not None
        assert rates.auc.value == pytest.approx(roc_auc_score(truth, scores))
        assert rates.brier.value == pytest.approx(brier_score_loss(truth, scores))
        assert (rates.sensitivity.n, rates.specificity.n) == (truth.sum(), (~truth).sum())


def test_a_prevalence_changes_what_an_answer_is_worth_and_nothing_else() -> None:
    own = verify(**answers(), positive="COVID-19").detection
    rare = verify(**answers(), positive="COVID-19", prevalence=0.01).detection
    assert own is not None
    assert rare is not None
    hit, clear = rare.overall.sensitivity.value, rare.overall.specificity.value
    expected = 0.01 * hit / (0.01 * hit + 0.99 * (1 - clear))
    assert rare.overall.ppv.value == pytest.approx(expected)
    assert rare.by_bias["north"].prevalence == 0.01
    assert rare.overall.ppv.high < own.overall.ppv.low
    assert rare.overall.sensitivity == own.overall.sensitivity
    assert rare.overall.auc == own.overall.auc


def test_a_threshold_moves_all_answers() -> None:
    given = answers(2)
    found = verify(**given, positive="COVID-19", threshold=0.2)
    called = given["prediction"][:, 1] >= 0.2
    assert found.detection is not None
    truth = given["target"] == 1
    assert found.detection.overall.sensitivity.value == pytest.approx(recall_score(truth, called))
    assert found.overall.value == pytest.approx((called == truth).mean())
    assert found.detection.positive.threshold == Threshold(0.2, "given")
    three = answers_at(torch.tensor([[0.5, 0.1, 0.4], [0.6, 0.3, 0.1]]), 1, 0.3)
    assert three.tolist() == [0, 1]  # below it, the most probable of the others


def test_answers_without_probabilities_have_rates_only() -> None:
    given = answers(2) | {"prediction": answers(2)["prediction"].argmax(1)}
    found = verify(**given, positive="COVID-19").detection
    assert found is not None
    assert found.overall.sensitivity.n > 0
    assert found.overall[5:] == (None, None, None, None)
    with pytest.raises(CrossbiasError, match="a threshold needs probabilities"):
        verify(**given, positive="COVID-19", threshold=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positive": "covid"}, "no class 'covid'.*; the classes are: healthy, COVID-19, other"),
        ({"prevalence": 0.1}, "about one class; name it as positive .one of healthy, COVID-19, o"),
        ({"threshold": 0.1}, "about one class"),
        ({"positive": "other", "prevalence": 5}, "prevalence must be between 0 and 1, got 5"),
        ({"positive": "other", "threshold": 2}, r"a probability between 0 and 1, .* got 2"),
        ({"positive": "other", "threshold": "f1"}, r"or the rule 'sensitivity>=.9', got 'f1'"),
        ({"positive": "other", "threshold": "sensitivity>=.9"}, "there is none; train with one"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CrossbiasError, match=message):
        verify(**answers(), **changes)


def test_a_rule_chooses_on_validation_and_refuses_test() -> None:
    given = answers()
    held = Labeled(
        "validation", torch.from_numpy(given["prediction"]), torch.from_numpy(given["target"])
    )
    found = chosen_threshold("sensitivity >= .9", 1, held)
    positives = given["prediction"][given["target"] == 1, 1]
    assert (positives >= found.value).mean() >= 0.9
    assert (positives > found.value).mean() < 0.9
    size = len(positives)
    assert found.origin == f"sensitivity>=0.9 on the validation split, {size} positive samples"
    with pytest.raises(CrossbiasError, match="cannot be chosen on 'test-biased', where it would l"):
        chosen_threshold("sensitivity>=.9", 1, held._replace(split="test-biased"))


def test_json_keeps_the_detection_and_leaves_it_out_where_there_is_none() -> None:
    found = verify(**answers(), positive="other", prevalence=0.2, threshold=0.3)
    read = Metrics.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    assert read == found
    assert read.detection is not None
    assert "detection" not in verify(**answers()).to_json()


def test_a_tie_between_the_classes_has_no_slope() -> None:
    stated = torch.tensor([0.1, 0.5, 0.5, 0.9])
    assert calibration_slope(stated, torch.tensor([0, 0, 1, 1]) > 0) is None
    assert calibration_slope(stated, torch.tensor([1, 1, 0, 0]) > 0) is None


def clustered(draw: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Five images of each of 60 patients, whose scores share most of their noise."""
    patient = np.repeat(np.arange(60), 5)
    ill = patient % 2 == 0
    noise = draw.normal(0, 0.9, 60)[patient] + draw.normal(0, np.sqrt(0.19), 300)
    return torch.from_numpy(noise + ill), torch.from_numpy(ill), torch.from_numpy(patient)


def test_intervals_over_patients_cover_where_those_over_images_do_not() -> None:
    """Five images of a patient say little more than one; the stated probabilities are true."""
    rate = norm.cdf(0.5)
    truth = {"sensitivity": rate, "specificity": rate, "ppv": rate, "npv": rate, "slope": 1.0}
    truth |= {"auc": norm.cdf(1 / np.sqrt(2)), "brier": 0.1988}  # the last by simulation
    draw, trials, held = np.random.default_rng(0), 120, np.zeros((2, len(truth)))
    positive = Positive("ill", prevalence=0.5)
    for _ in range(trials):
        scores, ill, patient = clustered(draw)
        stated = (scores - 0.5).sigmoid()
        both = torch.stack([1 - stated, stated], 1)
        for row, together in enumerate((None, patient)):
            found = detect(
                ill.long(), torch.zeros(300).long(), both.argmax(1), both, positive=positive,
                classes=("well", "ill"), values=(), cluster=together,
            ).overall._asdict()  # fmt: skip
            held[row] += [found[name].low <= value <= found[name].high
                          for name, value in truth.items()]  # fmt: skip
    assert (held[0] < 0.85 * trials).all()
    assert (held[1] >= 0.92 * trials).all()


def test_clusters_of_one_change_nothing_but_few_are_not_trusted() -> None:
    influence = torch.tensor([1.0, -1.0, 2.0, -2.0] * 100).double()
    single = cluster_effect(influence, torch.arange(400))
    assert single == pytest.approx(1, abs=0.02)
    together = cluster_effect(influence.sort().values, torch.arange(400) // 100)
    assert together > 100
    assert cluster_effect(influence, None) == 1.0


def test_verify_passes_clusters_on() -> None:
    given = answers(2)
    patients = np.arange(300) // 5
    plain = verify(**given, positive="COVID-19").detection
    by_patient = verify(**given, positive="COVID-19", cluster=patients).detection
    assert plain is not None
    assert by_patient is not None
    repeated = {
        **{name: np.repeat(given[name], 5, axis=0) for name in ("target", "prediction")},
        "classes": given["classes"],
    }
    five = verify(**repeated, positive="COVID-19", cluster=np.repeat(np.arange(300), 5)).detection
    assert five is not None
    for name in ("sensitivity", "specificity", "ppv", "npv", "auc", "brier", "slope", "intercept"):
        once, copied = getattr(plain.overall, name), getattr(five.overall, name)
        assert copied.value == pytest.approx(once.value)
        assert copied.low == pytest.approx(once.low, abs=0.02), name
        assert copied.high == pytest.approx(once.high, abs=0.02), name
        assert getattr(by_patient.overall, name).value == pytest.approx(once.value)
