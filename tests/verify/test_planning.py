"""Sample sizes, against statsmodels-free references: simulation, and what the intervals do."""

import numpy as np
import pytest
import torch
from scipy.stats import ttest_ind

from crossbias.errors import CrossbiasError
from crossbias.verify import mcnemar, paired_difference, wilson
from crossbias.verify.planning import (
    gain_seen,
    half_width,
    samples_for_accuracy,
    samples_for_gain,
    seeds_for_gain,
)


@pytest.mark.parametrize(("accuracy", "half"), [(0.8, 0.05), (0.5, 0.1), (0.95, 0.03)])
def test_the_interval_has_the_width_that_was_planned(accuracy: float, half: float) -> None:
    size = samples_for_accuracy(accuracy, half=half)
    estimate = wilson(round(accuracy * size), size)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=0.06)
    assert half_width(accuracy, size) == pytest.approx(half, rel=0.06)


@pytest.mark.parametrize(("gain", "differing"), [(0.05, 0.2), (0.1, 0.15)])
def test_mcnemars_test_sees_the_gain_as_often_as_planned(gain: float, differing: float) -> None:
    draw, trials = np.random.default_rng(0), 400
    size = samples_for_gain(gain, differing=differing)
    shares = [(differing - gain) / 2, (differing + gain) / 2, 1 - differing]
    seen = 0
    for only_first, only_second, _ in draw.multinomial(size, shares, size=trials).tolist():
        sizes = torch.tensor([only_first, only_second, size - only_first - only_second])
        first = torch.tensor([True, False, True]).repeat_interleave(sizes)
        second = torch.tensor([False, True, True]).repeat_interleave(sizes)
        seen += mcnemar(first, second).p < 0.05
    assert seen / trials == pytest.approx(0.8, abs=0.07)  # the exact test is a little stricter
    assert gain_seen(size, differing=differing) == pytest.approx(gain, rel=0.01)


@pytest.mark.parametrize(
    ("gain", "seeds"), [(0.1, 3), (0.05, 4), (0.02, 10)], ids=["large", "medium", "small"]
)
def test_welchs_test_sees_the_gain_as_often_as_planned(gain: float, seeds: int) -> None:
    """Student's test would do with 2 seeds for the first, where Welch's sees 57% of such gains."""
    draw, trials = np.random.default_rng(0), 4000
    assert seeds_for_gain(gain, deviation=0.015) == seeds
    runs = draw.normal([[[0.8]], [[0.8 + gain]]], 0.015, (2, trials, seeds))
    enough, fewer = (
        float((ttest_ind(*each, axis=1, equal_var=False).pvalue < 0.05).mean())
        for each in (runs, runs[:, :, 1:])
    )
    assert fewer < 0.82  # 80% and three standard errors
    assert enough > 0.78


def test_the_interval_of_the_gain_is_welchs_where_samples_abound() -> None:
    """The planned test is the one that is printed: here are both for the same accuracies."""
    accuracies = torch.tensor([[0.70, 0.72, 0.77], [0.80, 0.81, 0.80]])
    right = torch.arange(10_000) / 10_000 < accuracies[..., None]
    found = paired_difference(*right, cell=torch.zeros(10_000).long(), weights=torch.ones(1))
    welch = ttest_ind(accuracies[1], accuracies[0], equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(welch), abs=0.004)


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(CrossbiasError, match=r"differ in at least as many samples, got 0\.1"):
        samples_for_gain(0.2, differing=0.1)
    with pytest.raises(CrossbiasError, match="half must be between 0 and 1, got 0"):
        samples_for_accuracy(0.8, half=0)
    with pytest.raises(CrossbiasError, match="too small to see"):
        seeds_for_gain(1e-5, deviation=0.5)
    assert gain_seen(3, differing=0.1) is None
