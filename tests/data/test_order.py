"""The order of samples and how it is cut."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossbias.data.order import batches, epoch_order
from crossbias.errors import CrossbiasError


def test_an_epoch_holds_every_sample_once_in_an_order_of_its_own():
    first, second = (epoch_order(100, epoch, seed=3) for epoch in (0, 1))
    assert first.sort().values.tolist() == list(range(100))
    assert first.tolist() != second.tolist()
    assert first.tolist() == epoch_order(100, 0, seed=3).tolist()
    assert first.tolist() != epoch_order(100, 0, seed=4).tolist()


def test_the_order_is_the_same_on_every_platform():
    """Pinned, because a resumed run must see what the interrupted one would have seen."""
    assert epoch_order(8, epoch=0, seed=0).tolist() == [0, 6, 4, 5, 3, 2, 7, 1]


def test_a_mask_gives_each_chosen_sample_once():
    mask = torch.tensor([True, False, True, True, False])
    assert epoch_order(5, 0, 0, mask).sort().values.tolist() == [0, 2, 3]


def test_weights_give_draws_in_proportion_and_never_one_of_weight_zero():
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
    n = 6
    draws = torch.cat([epoch_order(n, epoch, 0, weights) for epoch in range(5000)])
    frequency = torch.bincount(draws, minlength=n) / len(draws)
    assert frequency[weights == 0].sum() == 0
    # standard error of a frequency near .6 over 30,000 draws is below .003
    torch.testing.assert_close(frequency, weights / weights.sum(), atol=0.01, rtol=0)


def test_weights_of_very_different_size_keep_their_proportions():
    """Cumulative sums in float32 would lose the small ones among 60,000."""
    weights = torch.full((60_000,), 1e-6)
    weights[0] = 1.0
    share = sum((epoch_order(60_000, e, 0, weights) == 0).float().mean() for e in range(4)) / 4
    assert abs(share - 1 / 1.06) < 0.005


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.zeros(4), "all zero"),
        (torch.tensor([1.0, -1.0, 1.0, 1.0]), "finite and not negative"),
        (torch.tensor([1.0, float("nan"), 1.0, 1.0]), "finite and not negative"),
        (torch.ones(3), "4 samples need as many weights"),
    ],
)
def test_weights_that_cannot_be_drawn_from_are_refused(weights, message):
    with pytest.raises(CrossbiasError, match=message):
        epoch_order(4, 0, 0, weights)


@given(n=st.integers(1, 200), size=st.integers(1, 50), minimum=st.integers(1, 8))
def test_batches_lose_nothing_and_only_the_last_may_differ(n, size, minimum):
    cut = batches(torch.arange(n), size, minimum)
    assert torch.cat(cut).tolist() == list(range(n))
    assert all(len(batch) == size for batch in cut[:-1])
    if len(cut) > 1:
        assert len(cut[-1]) >= min(minimum, size)
        assert len(cut[-1]) < size + minimum
