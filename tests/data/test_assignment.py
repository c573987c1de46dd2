"""Bias values with exact counts, and random numbers that are the same everywhere."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crossbias.data.assignment import biased_values, normal_between, shuffled


@given(
    sizes=st.lists(st.integers(0, 40), min_size=2, max_size=6),
    rho=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_biased_values_have_exact_counts(sizes: list[int], rho: float, seed: int) -> None:
    targets = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    generator = torch.Generator().manual_seed(seed)
    biases = biased_values(targets, values=len(sizes), rho=rho, generator=generator)
    for target, size in enumerate(sizes):
        counts = torch.bincount(biases[targets == target], minlength=len(sizes)).tolist()
        own = counts.pop(target)
        assert own == math.floor(size * rho + 0.5)
        assert sum(counts) == size - own
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(("size", "rho", "own"), [(5, 0.1, 1), (4, 0.1, 0), (2, 0.75, 2)])
def test_half_a_sample_is_aligned(size: int, rho: float, own: int) -> None:
    targets = torch.zeros(size, dtype=torch.int64)
    biases = biased_values(targets, values=10, rho=rho, generator=torch.Generator())
    assert int((biases == 0).sum()) == own


def test_conflicting_samples_and_odd_values_are_chosen_by_the_generator() -> None:
    targets = torch.zeros(40, dtype=torch.int64)
    draws = [
        biased_values(targets, values=10, rho=0.9, generator=torch.Generator().manual_seed(seed))
        for seed in range(50)
    ]
    assert len({tuple((biases == 0).tolist()) for biases in draws}) > 40
    odd = torch.stack([torch.bincount(biases, minlength=10)[1:] for biases in draws])
    assert (odd.sum(0) > 0).all()  # 4 of the other 9 values in each draw, all of them in 50


def test_shuffled_keeps_the_numbers_and_spreads_them() -> None:
    numbers = torch.arange(1000)
    result = shuffled(numbers, torch.Generator().manual_seed(0))
    assert torch.equal(result.sort().values, numbers)
    correlation = torch.corrcoef(torch.stack((numbers, result)).double())[0, 1]
    assert abs(float(correlation)) < 0.1


@pytest.mark.parametrize("deviation", [0.01, 0.14, 3.0, 1e6])
@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0])
def test_normal_numbers_drawn_again_are_those_of_a_truncated_distribution(mean, deviation):
    generator = torch.Generator().manual_seed(0)
    found = normal_between(
        torch.full((5000,), mean), 0, 1, deviation=deviation, generator=generator
    )
    ends = -mean / deviation, (1 - mean) / deviation
    expected = stats.truncnorm(*ends, loc=mean, scale=deviation)
    assert stats.kstest(found.numpy(), expected.cdf).pvalue > 1e-3


def test_without_a_deviation_they_are_their_means():
    means = torch.tensor([[0.0, 0.5], [1.0, 0.25]])
    found = normal_between(means, 0, 1, deviation=0.0, generator=torch.Generator())
    torch.testing.assert_close(found, means.double(), rtol=0, atol=1e-15)


def test_each_mean_has_its_own_numbers_one_uniform_each():
    generator = torch.Generator().manual_seed(0)
    means = torch.tensor([0.2, 0.8, 0.2])
    found = normal_between(means, 0, 1, deviation=1e-8, generator=generator)
    torch.testing.assert_close(found, means.double(), rtol=0, atol=1e-6)
    again = torch.Generator().manual_seed(0)
    torch.rand(3, dtype=torch.float64, generator=again)
    assert torch.equal(generator.get_state(), again.get_state())
