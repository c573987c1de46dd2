"""The chi-square test of two columns, against scipy, and over clusters by its false alarms."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency

from crossbias.verify import independence


@pytest.mark.parametrize("seed", range(4))
def test_without_clusters_it_is_pearsons_test(seed: int) -> None:
    draw = np.random.default_rng(seed)
    one = draw.integers(0, 3, 80)
    other = np.where(draw.random(80) < 0.2, one, draw.integers(0, 4, 80)) + 2  # 0 and 1 are absent
    table = np.array([[(one[other == b] == a).sum() for b in np.unique(other)] for a in range(3)])
    expected = chi2_contingency(table, correction=False).pvalue
    assert independence(torch.from_numpy(one), torch.from_numpy(other)) == pytest.approx(expected)


def test_copies_of_a_sample_in_a_cluster_say_no_more() -> None:
    one, other = torch.tensor([0, 0, 0, 1, 1, 1] * 8), torch.tensor([0, 0, 1, 1, 1, 0] * 8)
    cluster = torch.arange(48)
    alone = independence(one, other, cluster=cluster)
    again = independence(*(each.repeat(5) for each in (one, other)), cluster=cluster.repeat(5))
    assert again == pytest.approx(alone)
    assert independence(one.repeat(5), other.repeat(5)) < alone / 100


def test_a_column_of_one_value_is_independent_of_everything() -> None:
    assert independence(torch.zeros(9).long(), torch.arange(9)) == 1.0


def test_false_alarms_over_patients_are_as_rare_as_stated() -> None:
    """40 patients with five images each; without clusters about half of the tests alarm."""
    draw, alarms = np.random.default_rng(0), np.zeros(2)
    patient = torch.arange(40).repeat_interleave(5)
    for _ in range(300):
        one, other = (torch.from_numpy(draw.integers(0, k, 40))[patient] for k in (2, 4))
        found = [independence(one, other), independence(one, other, cluster=patient)]
        alarms += np.array(found) <= 0.05
    assert alarms[0] > 90
    assert alarms[1] <= 27  # more with a probability of .2% if the rate is 5%
