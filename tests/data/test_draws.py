"""Random numbers that are the same everywhere."""

import pytest
import torch
from scipy import stats

from crossbias.data.assignment import normal_in_unit


@pytest.mark.parametrize("deviation", [0.01, 0.14, 3.0, 1e6])
@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0])
def test_normal_numbers_drawn_again_are_those_of_a_truncated_distribution(mean, deviation):
    generator = torch.Generator().manual_seed(0)
    found = normal_in_unit(torch.full((5000,), mean), deviation=deviation, generator=generator)
    ends = -mean / deviation, (1 - mean) / deviation
    expected = stats.truncnorm(*ends, loc=mean, scale=deviation)
    assert stats.kstest(found.numpy(), expected.cdf).pvalue > 1e-3


def test_without_a_deviation_they_are_their_means():
    means = torch.tensor([[0.0, 0.5], [1.0, 0.25]])
    found = normal_in_unit(means, deviation=0.0, generator=torch.Generator())
    torch.testing.assert_close(found, means.double(), rtol=0, atol=1e-10)


def test_each_mean_has_its_own_numbers_one_uniform_each():
    generator = torch.Generator().manual_seed(0)
    means = torch.tensor([0.2, 0.8, 0.2])
    found = normal_in_unit(means, deviation=1e-9, generator=generator)
    torch.testing.assert_close(found, means.double(), rtol=0, atol=1e-7)
    again = torch.Generator().manual_seed(0)
    torch.rand(3, dtype=torch.float64, generator=again)
    assert torch.equal(generator.get_state(), again.get_state())
