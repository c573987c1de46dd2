"""Corrections for several comparisons, against their definition and by simulation."""

from itertools import combinations

import numpy as np
import pytest
import torch

from crossbias.verify import holm, mcnemar, paired_difference, simultaneous


def closed_test(p_values: list[float], place: int) -> float:
    """Holm by its definition: the worst Bonferroni test of all sets that hold the hypothesis."""
    others = [each for each in range(len(p_values)) if each != place]
    sets = [(place, *rest) for size in range(len(p_values)) for rest in combinations(others, size)]
    return max(min(1.0, len(each) * min(p_values[one] for one in each)) for each in sets)


def test_holm_is_the_closed_test() -> None:
    draw = np.random.default_rng(0)
    for size in (1, 2, 5):
        p_values = (draw.random(size) ** 3).tolist()
        expected = [closed_test(p_values, place) for place in range(size)]
        assert holm(p_values) == pytest.approx(expected)
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_of_five_equal_methods_one_seems_different_as_rarely_as_claimed() -> None:
    draw, trials, methods = np.random.default_rng(0), 120, 5
    cell, weights = torch.zeros(300).long(), torch.ones(1)
    alarms = np.zeros(3)
    for _ in range(trials):
        hard = draw.random(300) < 0.5  # the methods differ on these
        runs = torch.from_numpy(~hard | (draw.random((methods + 1, 300)) < 0.6))
        plain, others = runs[:1], runs[1:]
        for row, confidence in enumerate((0.95, simultaneous(0.95, methods))):
            gains = [
                paired_difference(
                    plain, other[None], cell=cell, weights=weights, confidence=confidence
                )
                for other in others
            ]
            alarms[row] += any(not gain.low <= 0 <= gain.high for gain in gains)
        alarms[2] += min(holm([mcnemar(plain[0], other).p for other in others])) < 0.05
    assert alarms[0] > 0.12 * trials
    assert max(alarms[1:]) <= 0.06 * trials


def test_one_comparison_is_not_corrected() -> None:
    assert simultaneous(0.95, 1) == pytest.approx(0.95)
    assert simultaneous(0.95, 0) == pytest.approx(0.95)
