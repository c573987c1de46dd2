"""Differences between models on the same samples, and means over seeds, against scipy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, t, ttest_1samp, ttest_ind

from crossbias.errors import CrossbiasError
from crossbias.verify import (
    NO_SAMPLES,
    Predictions,
    SeedVariance,
    check_same_samples,
    mcnemar,
    over_seeds,
    paired_difference,
    pooled_over_seeds,
    simultaneous,
)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 30), st.integers(0, 30))
def test_mcnemar_equals_the_binomial_test_of_the_differences(
    both: int, neither: int, only_first: int, only_second: int
) -> None:
    sizes = torch.tensor([both, neither, only_first, only_second])
    first = torch.tensor([True, False, True, False]).repeat_interleave(sizes)
    second = torch.tensor([True, False, False, True]).repeat_interleave(sizes)
    found, tosses = mcnemar(first, second), only_first + only_second
    assert found[:2] == (only_first, only_second)
    expected = binomtest(only_first, tosses).pvalue if tosses else 1.0
    assert found.p == pytest.approx(expected)
    assert mcnemar(second, first).p == found.p


def test_mcnemar_of_many_differences_neither_overflows_nor_takes_long() -> None:
    first = torch.arange(9000) < 4600
    found = mcnemar(first, ~first)
    assert found.p == pytest.approx(binomtest(4600, 9000).pvalue)
    assert mcnemar(torch.ones(5000) > 0, torch.zeros(5000) > 0).p < 1e-300


def test_mcnemar_refutes_equal_models_as_rarely_as_it_says() -> None:
    draw, trials = np.random.default_rng(0), 1000
    first, second = (torch.from_numpy(draw.random((trials, 200)) < 0.8) for _ in range(2))
    false = sum(mcnemar(a, b).p < 0.05 for a, b in zip(first, second, strict=True))
    assert false <= 0.06 * trials


def paired_answers(draw: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two cells of 300 and 60 samples; the second model is better in the small one by .3."""
    cell = np.repeat([0, 1], [300, 60])
    hard = draw.random(360)  # the same samples are hard for both
    first = hard < np.where(cell == 0, 0.9, 0.4)
    second = hard < np.where(cell == 0, 0.9, 0.7)
    flipped = draw.random(360) < 0.05
    answers = (torch.from_numpy((first ^ flipped)[None]), torch.from_numpy(second[None]))
    return *answers, torch.from_numpy(cell)


def test_the_difference_of_two_models_agrees_with_the_bootstrap() -> None:
    first, second, cell = paired_answers(np.random.default_rng(3))
    found = paired_difference(first, second, cell=cell, weights=torch.tensor([0.5, 0.5]))
    difference = second[0].double() - first[0].double()
    parts = [difference[cell == number].numpy() for number in (0, 1)]

    def mean_of_means(*groups: np.ndarray, axis: int) -> np.ndarray:
        return np.mean([group.mean(axis=axis) for group in groups], axis=0)

    reference = bootstrap(
        parts, mean_of_means, n_resamples=3000, batch=100, method="percentile", rng=0
    ).confidence_interval
    assert found.value == pytest.approx(np.mean([part.mean() for part in parts]))
    assert found.n == 360
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=8e-3)


def test_pairing_is_narrower_than_comparing_two_intervals() -> None:
    first, second, cell = paired_answers(np.random.default_rng(3))
    weights = torch.tensor([0.5, 0.5])
    paired = paired_difference(first, second, cell=cell, weights=weights)
    order = torch.from_numpy(np.random.default_rng(0).permutation(300))
    shuffled = torch.cat([second[:, :300][:, order], second[:, 300:]], 1)
    broken = paired_difference(first, shuffled, cell=cell, weights=weights)
    assert broken.value == pytest.approx(paired.value)
    assert paired.high - paired.low < broken.high - broken.low


def test_many_samples_leave_the_interval_of_welch() -> None:
    """With samples without end, what is left is the t interval of two groups of trainings."""
    draw = np.random.default_rng(0)
    shares = draw.normal(0.8, 0.02, (2, 4))
    runs = [torch.arange(1_000_000) < torch.from_numpy(part)[:, None] * 1e6 for part in shares]
    found = paired_difference(*runs, cell=torch.zeros(1_000_000).long(), weights=torch.ones(1))
    expected = ttest_ind(shares[1], shares[0], equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.01)


def trainings(
    draw: np.random.Generator, sizes: list[int], runs: int, deviation: float
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Two methods that are equal in the mean; their trainings differ by this much in accuracy."""
    cell = np.repeat(np.arange(len(sizes)), sizes)
    shape = (2, runs, len(cell))
    difficulty = 0.8 * draw.normal(size=len(cell)) + 0.6 * draw.normal(size=shape)
    shift = draw.normal(0, deviation / 0.28, (2, runs, 1))  # .28: density where 80% are right
    return list(torch.from_numpy(difficulty < 0.84 + shift)), torch.from_numpy(cell)


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("sizes", [[1000], [200, 200, 10, 10, 5]], ids=["one cell", "small cells"])
def test_equal_methods_are_called_different_as_rarely_as_it_says(
    runs: int, sizes: list[int]
) -> None:
    draw, trials, wrong = np.random.default_rng(0), 200, 0
    weights = torch.full((len(sizes),), 1 / len(sizes))
    for _ in range(trials):
        answers, cell = trainings(draw, sizes, runs, 0.015)
        found = paired_difference(*answers, cell=cell, weights=weights)
        wrong += not found.low <= 0 <= found.high
    assert wrong <= 0.1 * trials  # 5%, and three standard errors of 200 trials


def test_the_difference_of_two_models_covers_the_truth() -> None:
    """First is right on .9 and .4 before 5% of its answers flip, second on .9 and .7."""
    draw, trials, covered = np.random.default_rng(0), 200, 0
    truth = np.mean([0.9 - (0.9 * 0.95 + 0.1 * 0.05), 0.7 - (0.4 * 0.95 + 0.6 * 0.05)])
    for _ in range(trials):
        first, second, cell = paired_answers(draw)
        found = paired_difference(first, second, cell=cell, weights=torch.tensor([0.5, 0.5]))
        covered += found.low <= truth <= found.high
    assert 0.9 * trials <= covered <= 0.99 * trials


def test_a_difference_of_means_over_seeds_is_the_mean_of_the_differences() -> None:
    draw = np.random.default_rng(0)
    runs = torch.from_numpy(draw.random((4, 100)) < 0.7)
    cell = torch.arange(100) % 3
    weights = torch.tensor([0.2, 0.3, 0.5])
    pairs = [
        paired_difference(a[None], b[None], cell=cell, weights=weights)
        for a in runs[:2]
        for b in runs[2:]
    ]
    both = paired_difference(runs[:2], runs[2:], cell=cell, weights=weights)
    assert both.value == pytest.approx(np.mean([pair.value for pair in pairs]))


def test_models_that_agree_on_few_samples_are_not_known_to_be_equal() -> None:
    right = torch.ones(1, 5) > 0
    found = paired_difference(right, right, cell=torch.zeros(5).long(), weights=torch.ones(1))
    assert found.value == 0
    assert found.low < -0.2
    assert found.high > 0.2


def test_cells_without_weight_or_samples_count_nothing() -> None:
    first, second = torch.tensor([[0, 0, 1]]) > 0, torch.tensor([[1, 1, 0]]) > 0
    cell = torch.tensor([0, 0, 2])
    found = paired_difference(first, second, cell=cell, weights=torch.tensor([1.0, 0.0, 0.0]))
    assert (found.value, found.high, found.n) == (1.0, 1.0, 2)
    nothing = paired_difference(first, second, cell=cell, weights=torch.tensor([0.0, 1.0, 0.0]))
    assert nothing is NO_SAMPLES


def predictions(size: int) -> Predictions:
    return Predictions(
        index=torch.arange(size),
        target=torch.arange(size) % 2,
        probabilities=torch.full((size, 2), 0.5),
    )


@pytest.mark.parametrize("change", ["fewer", "other rows", "other order", "other targets"])
def test_predictions_for_different_samples_are_refused(change: str) -> None:
    first = predictions(6)
    check_same_samples(first, predictions(6))
    second = {
        "fewer": predictions(5),
        "other rows": replace(first, index=first.index + 1),
        "other order": replace(first, index=first.index.flip(0)),
        "other targets": replace(first, target=1 - first.target),
    }[change]
    with pytest.raises(CrossbiasError, match="different samples"):
        check_same_samples(first, second)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_over_seeds_equals_scipy(values: list[float], confidence: float) -> None:
    spread = over_seeds(values, confidence=confidence)
    assert spread.mean == pytest.approx(np.mean(values))
    assert spread.deviation == pytest.approx(np.std(values, ddof=1), abs=1e-12)
    assert spread.seeds == len(values)
    if spread.deviation > 1e-9:
        reference = ttest_1samp(values, 0.5).confidence_interval(confidence)
        limits = (max(0.0, reference.low), min(1.0, reference.high))
        assert (spread.low, spread.high) == pytest.approx(limits, abs=1e-9)


@pytest.mark.parametrize(
    ("seeds", "quantile"), [(2, 12.7062), (3, 4.30265), (5, 2.77645), (10, 2.26216), (31, 2.04227)]
)
def test_the_interval_has_the_quantiles_of_students_tables(seeds: int, quantile: float) -> None:
    values = [0.5 + 0.001 * (-1) ** seed for seed in range(seeds)]
    spread = over_seeds(values)
    half = (spread.high - spread.low) / 2
    assert half * math.sqrt(seeds) / spread.deviation == pytest.approx(quantile, rel=1e-5)


def test_one_seed_has_no_deviation_and_none_is_refused() -> None:
    one = over_seeds([0.7])
    assert (one.mean, one.seeds) == (0.7, 1)
    assert all(math.isnan(value) for value in (one.deviation, one.low, one.high))
    with pytest.raises(CrossbiasError, match="at least one run"):
        over_seeds([])


def test_the_interval_over_seeds_covers_the_mean_of_all_trainings() -> None:
    draw = np.random.default_rng(0)
    spreads = [over_seeds(values) for values in draw.normal(0.7, 0.05, (1000, 3)).tolist()]
    assert 0.93 <= sum(s.low <= 0.7 <= s.high for s in spreads) / 1000 <= 0.97


def answers_of_patients(
    draw: np.random.Generator, patients: int, each: int, runs: int, deviation: float
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Two equal methods; each finds other patients hard, and all images of a patient alike."""
    patient = np.repeat(np.arange(patients), draw.poisson(each - 1, patients) + 1)
    common, own = draw.normal(size=patients), draw.normal(size=(2, 1, patients))
    noise, shift = draw.normal(size=(2, runs, len(patient))), draw.normal(size=(2, runs, 1))
    difficulty = math.sqrt(0.4) * (common + own)[..., patient] + math.sqrt(0.2) * noise
    return list(torch.from_numpy(difficulty + deviation * shift < 0.8)), torch.from_numpy(patient)


@pytest.mark.parametrize(("runs", "deviation"), [(1, 0.0), (3, 0.05)])
def test_gains_over_patients_cover_where_gains_over_images_do_not(
    runs: int, deviation: float
) -> None:
    draw, trials, over_patients, over_images = np.random.default_rng(0), 300, 0, 0
    for _ in range(trials):
        answers, patient = answers_of_patients(draw, 40, 5, runs, deviation)
        given = {"cell": torch.zeros_like(patient), "weights": torch.ones(1)}
        found = paired_difference(*answers, **given, cluster=patient)
        over_patients += found.low <= 0 <= found.high
        plain = paired_difference(*answers, **given)
        assert found.value == plain.value
        over_images += plain.low <= 0 <= plain.high
    assert over_patients >= 0.92 * trials  # 95%, and 2.4 standard errors of 300 trials
    assert over_images < 0.85 * trials


def test_copies_of_samples_do_not_narrow_a_gain() -> None:
    draw = np.random.default_rng(0)
    once = torch.from_numpy(draw.random((2, 1, 300)) < 0.8)
    weights, copies = torch.tensor([0.5, 0.5]), torch.arange(300).repeat_interleave(4)
    cell = torch.arange(300) % 2
    alone = paired_difference(*once, cell=cell, weights=weights)
    found = paired_difference(
        *once[..., copies], cell=cell[copies], weights=weights, cluster=copies
    )
    assert found.value == pytest.approx(alone.value)
    assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.03)


def test_the_variance_over_seeds_of_several_methods_is_that_of_an_analysis_of_variance() -> None:
    methods = [[0.70, 0.74], [0.80, 0.80, 0.83], [0.9], [0.6, 0.65, 0.61, 0.64]]
    inside = [each - np.mean(each) for each in map(np.array, methods)]
    found = pooled_over_seeds(methods)
    assert found.variance == pytest.approx(np.concatenate(inside) @ np.concatenate(inside) / 6)
    assert found.freedom == 1 + 2 + 3
    assert pooled_over_seeds([[0.9], [0.8]]) is None


def test_seeds_that_agree_by_chance_do_not_narrow_a_gain_if_other_methods_vary() -> None:
    """Many samples: the interval is Student's, with the variance and the freedom of all methods."""
    accuracies = torch.tensor([[0.700, 0.701, 0.702], [0.750, 0.751, 0.752]])
    answers = torch.arange(10_000) / 10_000 < accuracies[..., None]
    cell, weights = torch.zeros(10_000).long(), torch.ones(1)
    alone = paired_difference(*answers, cell=cell, weights=weights)
    pooled = SeedVariance(0.02**2, 20)
    found = paired_difference(*answers, cell=cell, weights=weights, over_methods=pooled)
    half = t.ppf(0.975, 20) * 0.02 * math.sqrt(2 / 3)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.05)
    assert alone.high - alone.low < 0.03
    small = SeedVariance(1e-6, 20)
    assert paired_difference(*answers, cell=cell, weights=weights, over_methods=small) == alone


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_gains_of_nine_methods_hold_together_whatever_the_baseline_varies(factor: float) -> None:
    """Three seeds each; alone, the intervals hold together in about 91% of such comparisons."""
    draw, trials, held = np.random.default_rng(0), 80, 0
    cell, confidence = torch.zeros(200).long(), simultaneous(0.95, 9)
    shift = np.full((10, 1, 1), 0.06)
    shift[0] *= factor
    for _ in range(trials):
        difficulty = math.sqrt(0.6) * draw.normal(size=200) + math.sqrt(0.4) * draw.normal(
            size=(10, 3, 200)
        )
        right = torch.from_numpy(difficulty + shift * draw.normal(size=(10, 3, 1)) < 0)
        pooled = pooled_over_seeds(right.double().mean(2).tolist())
        gains = [
            paired_difference(
                right[0], other, cell=cell, weights=torch.ones(1), confidence=confidence,
                over_methods=pooled,
            )
            for other in right[1:]
        ]  # fmt: skip
        held += all(gain.low <= 0 <= gain.high for gain in gains)
    assert held >= 0.88 * trials  # 95%, and three standard errors of 80 trials
