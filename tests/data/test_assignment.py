import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossbias.data.assignment import biased_values, shuffled


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
