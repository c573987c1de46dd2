"""Labels missing by class, against a permutation test written out and scipy's chi-square test."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from crossbias.verify import missing_by_class, missing_warning, verify


def slow_twin(missing: list[int], total: list[int], draws: int = 2000) -> float:
    """Shuffle which samples lack the label, and count how often classes differ as much."""
    draw = np.random.default_rng(1)
    target = np.repeat(np.arange(len(total)), total)
    lacking = np.concatenate([np.arange(n) < m for m, n in zip(missing, total, strict=True)])

    def statistic(lacks: np.ndarray) -> float:
        table = [[(target[lacks] == c).sum(), (target[~lacks] == c).sum()]
                 for c in range(len(total))]  # fmt: skip
        return float(chi2_contingency(table, correction=False).statistic)

    own = statistic(lacking) - 1e-9
    return sum(statistic(draw.permutation(lacking)) >= own for _ in range(draws)) / draws


@pytest.mark.parametrize(
    ("missing", "total"), [([4, 1], [6, 9]), ([3, 1, 2], [5, 7, 20]), ([3, 3], [10, 12])]
)
def test_small_counts_equal_shuffled_labels(missing: list[int], total: list[int]) -> None:
    expected = slow_twin(missing, total, draws=500)
    assert missing_by_class(missing, total) == pytest.approx(expected, abs=0.06)


def test_large_counts_equal_the_chi_square_test() -> None:
    missing, total = [300, 330, 372], [3000, 3000, 3000]
    table = [[m, n - m] for m, n in zip(missing, total, strict=True)]
    expected = chi2_contingency(table, correction=False).pvalue
    assert 0.001 < expected < 0.05
    assert missing_by_class(missing, total) == pytest.approx(expected, abs=0.005)


def test_nothing_is_tested_where_nothing_differs() -> None:
    assert missing_by_class([0, 0], [10, 10]) == 1.0
    assert missing_by_class([10, 10], [10, 10]) == 1.0  # a column without any value
    assert missing_by_class([3], [10]) == missing_by_class([3, 0], [10, 0]) == 1.0


def test_random_gaps_rarely_warn() -> None:
    draw = np.random.default_rng(0)
    pairs = [(draw.binomial([30, 60, 200], 0.1).tolist(), [30, 60, 200]) for _ in range(80)]
    assert sum(missing_by_class(*pair) < 0.01 for pair in pairs) <= 3


def test_metrics_warn_with_counts() -> None:
    target = ["ill"] * 100 + ["well"] * 120
    site = [None] * 40 + ["a", "b"] * 30 + [None] * 2 + ["a", "b"] * 59
    found = verify(target=target, prediction=target, attributes={"site": site}).warning
    assert found == (
        "whether the bias label is known depends on the class: it is missing for 40.0% of ill (40 "
        "of 100), but for 1.7% of well (2 of 120) (p<.001, permutation test); numbers by group "
        "leave these samples out"
    )
    even = [None] * 4 + ["a", "b"] * 48 + [None] * 4 + ["a", "b"] * 58
    assert verify(target=target, prediction=target, attributes={"site": even}).warning is None
    assert missing_warning("site", [0, 0], [5, 5], ["ill", "well"]) is None


def test_images_of_one_patient_lack_their_label_together() -> None:
    """Six of 20 patients and one of 20 lack it: not clear, but it is with ten images of each."""
    assert missing_by_class([60, 10], [200, 200]) < 0.001
    assert missing_by_class([60, 10], [200, 200], effect=10) == missing_by_class([6, 1], [20, 20])
    target, site = [0] * 200 + [1] * 200, [None] * 60 + ["a"] * 140 + [None] * 10 + ["a"] * 190
    given = {"target": target, "prediction": target, "attributes": {"site": site}}
    assert "depends on the class" in (verify(**given).warning or "")
    assert verify(**given, cluster=[row // 10 for row in range(400)]).warning is None
