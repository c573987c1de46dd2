import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, norm

from crossbias.verify import NO_SAMPLES, Estimate, lowest_of, mean_of_groups, wilson
from crossbias.verify.intervals import wilson_size

proportions = st.integers(1, 3000).flatmap(
    lambda total: st.tuples(st.integers(0, total), st.just(total))
)


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_equals_the_published_table(
    correct: int, total: int, low: float, high: float
) -> None:
    """Newcombe (1998), Statistics in Medicine 17:857, Table I, method 3."""
    estimate = wilson(correct, total)
    assert (round(estimate.low, 4), round(estimate.high, 4)) == (low, high)


@given(proportions, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_limits_are_where_the_score_test_turns(
    proportion: tuple[int, int], confidence: float
) -> None:
    """The limits solve (p - x)² = z² x (1 - x) / n, a quadratic in x."""
    correct, total = proportion
    p, z = correct / total, norm.ppf((1 + confidence) / 2)
    a, b, c = 1 + z**2 / total, -(2 * p + z**2 / total), p**2
    root = math.sqrt(max(b**2 - 4 * a * c, 0.0))
    estimate = wilson(correct, total, confidence=confidence)
    assert estimate.value == p
    assert estimate.n == total
    assert estimate.low == pytest.approx((-b - root) / (2 * a), abs=1e-7)
    assert estimate.high == pytest.approx((-b + root) / (2 * a), abs=1e-7)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


@given(proportions)
def test_wilson_equals_scipy(proportion: tuple[int, int]) -> None:
    reference = binomtest(*proportion).proportion_ci(method="wilson")
    estimate = wilson(*proportion)
    assert (estimate.low, estimate.high) == pytest.approx((reference.low, reference.high))


def test_no_samples_is_not_a_number_and_null_in_json() -> None:
    empty = wilson(0, 0)
    assert empty is NO_SAMPLES
    assert math.isnan(empty.value)
    written = json.dumps(empty.to_json(), allow_nan=False)
    assert json.loads(written) == {"value": None, "low": None, "high": None, "n": 0}
    assert Estimate.from_json(json.loads(written)) is NO_SAMPLES


@pytest.mark.parametrize(("correct", "total"), [(3, 2), (-1, 2), (1, 0)])
def test_wilson_refuses_impossible_counts(correct: int, total: int) -> None:
    with pytest.raises(ValueError, match="correct must lie in"):
        wilson(correct, total)


@given(st.lists(proportions, min_size=1, max_size=30))
def test_mean_of_groups_is_the_mean_between_its_limits(groups: list[tuple[int, int]]) -> None:
    correct, total = zip(*groups, strict=True)
    mean = mean_of_groups(correct, total)
    assert mean.value == pytest.approx(np.mean([right / size for right, size in groups]))
    assert mean.n == sum(total)
    assert 0 <= mean.low <= mean.value <= mean.high <= 1
    assert mean.low < mean.high
    # Empty groups and the order change nothing.
    assert mean_of_groups([0, *correct[::-1]], [0, *total[::-1]]) == pytest.approx(mean)


@given(proportions, st.integers(1, 50))
def test_mean_of_equal_groups_is_the_interval_of_their_pool(
    group: tuple[int, int], copies: int
) -> None:
    correct, total = group
    pool = wilson(correct * copies, total * copies)
    assert mean_of_groups([correct] * copies, [total] * copies) == pytest.approx(pool)


def test_mean_of_groups_does_not_collapse_at_the_ends() -> None:
    all_right, all_wrong = mean_of_groups([30] * 4, [30] * 4), mean_of_groups([0] * 4, [30] * 4)
    assert (all_right.value, all_right.high) == (1.0, 1.0)
    assert 0.9 < all_right.low < 0.99
    assert (all_wrong.value, all_wrong.low) == (0.0, 0.0)
    assert 0.01 < all_wrong.high < 0.1


def test_mean_of_groups_that_are_all_right_or_all_wrong_is_still_uncertain() -> None:
    """A model that follows the bias: nothing varies within a group, yet groups are samples."""
    mean = mean_of_groups([30, 30, 0, 0], [30] * 4)
    assert mean.value == 0.5
    assert 0.02 < mean.high - mean.low < 0.2


@given(st.lists(proportions, min_size=1, max_size=30))
def test_mean_of_groups_solves_the_score_equation_at_the_effective_number(
    groups: list[tuple[int, int]],
) -> None:
    """The limits x solve (p - x)² = z² x (1 - x) / n, with n as the docstring defines it."""
    correct, total = np.array(groups, dtype=float).T
    smooth = (correct + 0.5) / (total + 1)
    variance = (smooth * (1 - smooth) / total).sum() / len(groups) ** 2
    n = smooth.mean() * (1 - smooth.mean()) / variance
    p, z = (correct / total).mean(), norm.ppf(0.975)
    roots = np.roots([1 + z**2 / n, -(2 * p + z**2 / n), p**2]).real
    mean = mean_of_groups(*zip(*groups, strict=True))
    assert (mean.low, mean.high) == pytest.approx((min(roots), max(roots)), abs=1e-6)


def test_mean_of_no_groups_has_no_samples() -> None:
    assert mean_of_groups([], []) is NO_SAMPLES
    assert mean_of_groups([0, 0], [0, 0]) is NO_SAMPLES


def group_sizes(*parts: tuple[int, int, float]) -> tuple[list[int], list[float]]:
    """Sizes and true accuracies of groups, from (number of groups, samples each, accuracy)."""
    sizes = [size for number, size, _ in parts for _ in range(number)]
    return sizes, [accuracy for number, _, accuracy in parts for _ in range(number)]


@pytest.mark.parametrize(
    ("sizes", "accuracy"),
    [
        pytest.param(*group_sizes((10, 100, 0.97), (90, 100, 0.4)), id="plain training, 10x10"),
        pytest.param(*group_sizes((10, 100, 0.99), (90, 100, 0.99)), id="solved, 10x10"),
        pytest.param(*group_sizes((10, 100, 0.999), (90, 100, 0.02)), id="shortcut only, 10x10"),
        pytest.param(*group_sizes((10, 900, 0.99), (90, 11, 0.9)), id="biased split, 10x10"),
        pytest.param(*group_sizes((2, 2255, 0.99), (2, 642, 0.65)), id="two by two"),
        pytest.param(*group_sizes((2, 2000, 0.999), (2, 50, 0.96)), id="small conflicting cells"),
        pytest.param(*group_sizes((1, 5000, 0.999), (3, 20, 0.5)), id="very uneven"),
        pytest.param(*group_sizes((6, 30, 0.99)), id="few and nearly all right"),
        pytest.param(*group_sizes((9, 40, 0.01)), id="few and nearly all wrong"),
    ],
)
def test_mean_of_groups_covers_the_truth(sizes: list[int], accuracy: list[float]) -> None:
    trials = 2000
    draws = np.random.default_rng(0).binomial(sizes, accuracy, size=(trials, len(sizes)))
    means = [mean_of_groups(draw.tolist(), sizes) for draw in draws]
    truth = float(np.mean(accuracy))
    assert sum(mean.low <= truth <= mean.high for mean in means) / trials >= 0.93


def test_mean_of_groups_agrees_with_a_stratified_bootstrap_on_large_cells() -> None:
    sizes, correct = [4000, 3000, 2000, 2500], [3800, 2100, 900, 2000]
    cells = [np.repeat([1.0, 0.0], [c, n - c]) for c, n in zip(correct, sizes, strict=True)]

    def mean_of_means(*groups: np.ndarray, axis: int) -> np.ndarray:
        return np.mean([group.mean(axis=axis) for group in groups], axis=0)

    # scipy resamples each cell by itself, which is what stratified means.
    reference = bootstrap(
        cells, mean_of_means, n_resamples=3000, batch=100, method="percentile", rng=0
    ).confidence_interval
    mean = mean_of_groups(correct, sizes)
    assert mean.low == pytest.approx(reference.low, abs=5e-4)
    assert mean.high == pytest.approx(reference.high, abs=5e-4)
    assert mean.high - mean.low == pytest.approx(reference.high - reference.low, rel=0.06)


def test_the_lowest_of_one_proportion_has_the_exact_interval() -> None:
    exact = binomtest(8, 10).proportion_ci(0.95, method="exact")
    assert lowest_of([8, 0], [10, 0]) == pytest.approx((0.8, exact.low, exact.high, 10))
    assert lowest_of([0, 0], [0, 0]) is NO_SAMPLES
    assert lowest_of([5], [5])[1:] == pytest.approx((0.025 ** (1 / 5), 1.0, 5))


@pytest.mark.parametrize(
    ("sizes", "truths"),
    [
        ([30] * 100, [0.8] * 100),
        ([200] * 10 + [8] * 30, [0.95] * 10 + [0.7] * 30),
        ([500, 500, 20, 20], [0.95, 0.95, 0.5, 0.6]),
    ],
    ids=["100 equal groups", "small groups", "four groups"],
)
def test_the_interval_of_the_lowest_holds_the_lowest_truth(sizes, truths) -> None:
    """The accuracy of the group picked for being lowest is far too low by itself."""
    draw, trials, covered, alone = np.random.default_rng(0), 300, 0, 0
    for _ in range(trials):
        correct = draw.binomial(sizes, truths).tolist()
        found = lowest_of(correct, sizes)
        covered += found.low <= min(truths) <= found.high
        own = wilson(round(found.value * found.n), found.n)
        alone += own.low <= min(truths) <= own.high
    assert covered >= 0.94 * trials
    assert alone < covered


@given(st.integers(1, 5000), st.floats(0, 1), st.floats(1, 20))
def test_the_size_behind_wilsons_limits_is_found_again(n: int, share: float, effect: float) -> None:
    estimate = wilson(round(share * n), n, effect=effect)
    assert wilson_size(estimate) == pytest.approx(n / effect, rel=1e-6)
