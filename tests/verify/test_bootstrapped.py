"""The stratified bootstrap of an accuracy, against scipy, by hand, and its coverage."""

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from crossbias.errors import CrossbiasError
from crossbias.verify import (
    NO_SAMPLES,
    WEIGHTS,
    Cells,
    accuracies,
    bootstrapped,
    mean_of_groups,
    protocols,
)


def cells_of(correct: list[list[int]], total: list[list[int]]) -> Cells:
    """Cells of two classes and two bias values; the last column is of unknown bias."""
    return Cells(
        correct=torch.tensor(correct),
        total=torch.tensor(total),
        alignment=torch.eye(2) > 0,
        classes=("cat", "dog"),
        biases=("lawn", "sofa"),
    )


LARGE = cells_of([[380, 210, 30], [90, 200, 0]], [[400, 300, 50], [200, 250, 0]])


@pytest.mark.parametrize("name", WEIGHTS)
def test_its_value_and_size_are_those_of_the_accuracy(name: str) -> None:
    usual = (getattr(accuracies, name, None) or getattr(protocols, name))(LARGE)
    found = bootstrapped(LARGE, name)
    assert found.value == pytest.approx(usual.value)
    assert found.n == usual.n
    assert found == bootstrapped(LARGE, name)
    # With many samples and no cell near 0 or 1 the two intervals are nearly the same.
    assert (found.low, found.high) == pytest.approx((usual.low, usual.high), abs=0.006)


def test_the_unbiased_accuracy_agrees_with_scipys_stratified_bootstrap() -> None:
    rates = zip(LARGE.correct[:, :2].flatten(), LARGE.total[:, :2].flatten(), strict=True)
    groups = [np.repeat([1.0, 0.0], [int(c), int(n - c)]) for c, n in rates]

    def mean_of_means(*parts: np.ndarray, axis: int) -> np.ndarray:
        return np.mean([part.mean(axis=axis) for part in parts], axis=0)

    reference = bootstrap(
        groups, mean_of_means, n_resamples=3000, batch=100, method="percentile", rng=0
    ).confidence_interval
    found = bootstrapped(LARGE)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=3e-3)


def covered(size: int, truth: float, splits: int = 400) -> tuple[float, float]:
    """How often the bootstrap's and the formula's 95 % intervals of four cells hold the truth."""
    total = [[size, size, 0], [size, size, 0]]
    bootstrap_hits = formula_hits = 0
    for right in np.random.default_rng(0).binomial(size, truth, (splits, 4)).tolist():
        found = bootstrapped(cells_of([[*right[:2], 0], [*right[2:], 0]], total))
        usual = mean_of_groups(right, [size] * 4)
        bootstrap_hits += found.low <= truth <= found.high
        formula_hits += usual.low <= truth <= usual.high
    return bootstrap_hits / splits, formula_hits / splits


def test_it_covers_nearly_as_it_says_away_from_certainty() -> None:
    resampled, formula = covered(150, 0.7)
    assert resampled >= 0.90  # 93.5 % of 1,500 splits
    assert formula >= 0.92


def test_near_certainty_it_covers_less_than_it_says_and_the_formula_does_not() -> None:
    resampled, formula = covered(30, 0.99)
    assert resampled <= 0.85
    assert formula >= 0.93


def test_cells_without_samples_count_nothing() -> None:
    empty = cells_of([[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]])
    assert bootstrapped(empty) is NO_SAMPLES
    lone = cells_of([[3, 0, 0], [0, 0, 0]], [[3, 0, 0], [0, 0, 0]])
    assert bootstrapped(lone) == (
        1.0,
        1.0,
        1.0,
        3,
    )  # nothing to resample: why it is not the default


def test_a_number_that_is_no_mean_of_cells_is_refused() -> None:
    with pytest.raises(CrossbiasError, match=r"no bootstrap interval of 'worst_group'.*overall"):
        bootstrapped(LARGE, "worst_group")
