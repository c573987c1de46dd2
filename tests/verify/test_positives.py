"""Numbers about a positive class, against scikit-learn, scipy and simulation."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from scipy.stats import norm, t
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score, roc_curve

from crossbias.errors import CrossbiasError
from crossbias.verify import (
    NO_SAMPLES,
    auc,
    brier_score,
    calibration_slope,
    predictive_values,
    threshold_for,
    wilson,
)


def scored(
    draw: np.random.Generator, positives: int, negatives: int, truth: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal scores under which the true area is ``truth``."""
    shift = norm.ppf(truth) * math.sqrt(2)
    scores = np.r_[draw.normal(shift, 1, positives), draw.normal(0, 1, negatives)]
    return torch.from_numpy(scores), torch.arange(positives + negatives) < positives


@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "with ties"])
def test_auc_is_that_of_scikit_learn(rounded: bool) -> None:
    scores, positive = scored(np.random.default_rng(0), 40, 70, 0.8)
    scores = scores.round() if rounded else scores
    assert auc(scores, positive).value == pytest.approx(roc_auc_score(positive, scores))
    assert auc(-scores, ~positive).value == pytest.approx(roc_auc_score(positive, scores))


def test_auc_of_one_class_does_not_exist_and_a_perfect_order_is_not_certain() -> None:
    assert auc(torch.rand(5), torch.ones(5) > 0) is NO_SAMPLES
    perfect = auc(torch.arange(10), torch.arange(10) >= 5)
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low < 0.9


@pytest.mark.parametrize(("positives", "negatives", "truth"), [(20, 200, 0.9), (15, 15, 0.7)])
def test_the_interval_of_the_auc_covers_the_truth(
    positives: int, negatives: int, truth: float
) -> None:
    draw, trials, covered = np.random.default_rng(0), 300, 0
    for _ in range(trials):
        found = auc(*scored(draw, positives, negatives, truth))
        covered += found.low <= truth <= found.high
    assert covered >= 0.92 * trials


def test_predictive_values_follow_bayes() -> None:
    found = predictive_values(90, 100, 160, 200, prevalence=0.1)
    assert (found.sensitivity, found.specificity) == (wilson(90, 100), wilson(160, 200))
    assert found.ppv.value == pytest.approx(0.9 * 0.1 / (0.9 * 0.1 + 0.2 * 0.9))
    assert found.npv.value == pytest.approx(0.8 * 0.9 / (0.8 * 0.9 + 0.1 * 0.1))
    own = predictive_values(90, 100, 160, 200)
    assert own.prevalence == pytest.approx(1 / 3)
    assert own.ppv.value == pytest.approx(90 / 130)  # the share of positive answers that are right
    assert own.npv.value == pytest.approx(160 / 170)


@pytest.mark.parametrize(
    ("positives", "negatives", "sensitivity", "specificity", "prevalence"),
    [(50, 50, 0.9, 0.8, 0.1), (30, 30, 0.99, 0.95, 0.3), (20, 200, 0.95, 0.9, 0.02)],
)
def test_the_intervals_of_predictive_values_cover_the_truth(
    positives: int, negatives: int, sensitivity: float, specificity: float, prevalence: float
) -> None:
    draw, trials, held = np.random.default_rng(0), 300, np.zeros(2)
    ill, well = prevalence, 1 - prevalence
    ppv = sensitivity * ill / (sensitivity * ill + (1 - specificity) * well)
    npv = specificity * well / (specificity * well + (1 - sensitivity) * ill)
    for _ in range(trials):
        hits, clear = draw.binomial(positives, sensitivity), draw.binomial(negatives, specificity)
        found = predictive_values(
            int(hits), positives, int(clear), negatives, prevalence=prevalence
        )
        held += [part.low <= truth <= part.high
                 for part, truth in ((found.ppv, ppv), (found.npv, npv))]  # fmt: skip
    assert held.min() >= 0.92 * trials


def test_answers_never_given_and_classes_never_seen_have_no_predictive_value() -> None:
    never = predictive_values(0, 10, 20, 20, prevalence=0.5)
    assert never.ppv is NO_SAMPLES
    assert never.npv.value == pytest.approx(0.5)
    assert predictive_values(3, 5, 0, 0).ppv is NO_SAMPLES
    with pytest.raises(CrossbiasError, match="prevalence must be between 0 and 1, got 1"):
        predictive_values(1, 2, 1, 2, prevalence=1.0)


def test_brier_score_is_that_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    p = draw.random(200)
    y = draw.random(200) < p
    found = brier_score(torch.from_numpy(p), torch.from_numpy(y))
    assert found.value == pytest.approx(brier_score_loss(y, p))
    assert found.low < 1 / 6 < found.high  # the truth: the mean of p (1 - p)


def test_calibration_slope_is_logistic_regression() -> None:
    draw = np.random.default_rng(0)
    logit = draw.normal(-1, 1.5, 500)
    y = draw.random(500) < 1 / (1 + np.exp(-0.5 * logit - 0.3))
    found = calibration_slope(torch.from_numpy(1 / (1 + np.exp(-logit))), torch.from_numpy(y))
    assert found is not None
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(logit[:, None], y)
    assert found.slope.value == pytest.approx(expected.coef_[0, 0], rel=1e-4)
    assert found.intercept.value == pytest.approx(expected.intercept_[0], rel=1e-4)
    assert 0 < found.slope.low < found.slope.high < 1  # too sure, and known to be


def test_a_slope_that_does_not_exist_is_none() -> None:
    separated = torch.tensor([0.1, 0.2, 0.8, 0.9])
    assert calibration_slope(separated, separated > 0.5) is None
    assert calibration_slope(torch.full((4,), 0.5), separated > 0.5) is None
    assert calibration_slope(separated, separated > 2) is None


@pytest.mark.parametrize("wanted", [0.5, 0.9, 1.0])
def test_a_threshold_is_the_highest_that_finds_enough(wanted: float) -> None:
    scores, positive = scored(np.random.default_rng(0), 40, 70, 0.8)
    p = scores.sigmoid()
    found = threshold_for(p, positive, sensitivity=wanted)
    _, sensitivity, thresholds = roc_curve(positive, p)
    expected = thresholds[np.argmax(sensitivity >= wanted - 1e-12)]
    reached = float((p[positive] >= found - 1e-9).double().mean())
    assert reached >= wanted
    assert found >= expected - 1e-9
    with pytest.raises(CrossbiasError, match="there are none"):
        threshold_for(p, positive & ~positive, sensitivity=wanted)
    with pytest.raises(CrossbiasError, match=r"in \(0, 1\], got 0"):
        threshold_for(p, positive, sensitivity=0)


def test_the_interval_of_the_brier_score_is_students_on_the_scale_of_the_logit() -> None:
    draw = np.random.default_rng(0)
    stated, happened = draw.random(60), draw.random(60) < 0.3
    errors = (stated - happened) ** 2
    found = brier_score(torch.from_numpy(stated), torch.from_numpy(happened))
    half = t.ppf(0.975, 59) * errors.std(ddof=1) / math.sqrt(60)
    half /= errors.mean() * (1 - errors.mean())
    center = logit(errors.mean())
    assert (found.low, found.high) == pytest.approx((expit(center - half), expit(center + half)))
    perfect = brier_score(torch.ones(20), torch.ones(20) > 0)
    assert (perfect.value, perfect.low) == (0, 0)
    assert perfect.high == pytest.approx(wilson(0, 20).high)


def test_copies_of_samples_say_no_more_about_a_perfect_order() -> None:
    scores = torch.arange(32).double()
    once = auc(scores, scores >= 16)
    copies, cluster = scores.repeat_interleave(5), torch.arange(32).repeat_interleave(5)
    found = auc(copies, copies >= 16, cluster=cluster)
    assert found.low == pytest.approx(once.low, abs=0.02)
    assert auc(copies, copies >= 16).low > 0.97 > found.low
