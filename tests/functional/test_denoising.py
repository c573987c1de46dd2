"""Clean or noisy, against eq. 2 of PGD written as a loop."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossbias.functional import clean_samples, noise_threshold

numbers = st.floats(min_value=0.015625, max_value=8, width=32)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_a_sample_is_clean_where_its_loss_over_its_entropy_is_below_delta(pairs):
    losses, entropies = (torch.tensor(column).double() for column in zip(*pairs, strict=True))
    delta = sum(loss for loss, _ in pairs) / sum(entropy for _, entropy in pairs)
    clean = clean_samples(losses, entropies)
    assert noise_threshold(losses, entropies).item() == pytest.approx(delta)
    for (loss, entropy), found in zip(pairs, clean.tolist(), strict=True):
        assert found == (loss / entropy < delta) or loss / entropy == pytest.approx(delta)
    ratios = [loss / entropy for loss, entropy in pairs]
    # delta is a mean of the ratios; rounding decides where they are all the same
    assert not clean.all() or max(ratios) == pytest.approx(delta)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_that_is_sure_neither_divides_by_zero_nor_loses_what_it_fitted(dtype):
    losses = torch.tensor([0.0, 0.0, 30.0], dtype=dtype)
    entropies = torch.zeros(3, dtype=dtype)
    assert clean_samples(losses, entropies).tolist() == [True, True, False]
    assert clean_samples(losses[:2], entropies[:2]).tolist() == [True, True]
    for count in (2, 3):
        assert noise_threshold(losses[:count], entropies[:count]).isfinite()


def test_samples_that_are_all_alike_are_all_left_out():
    assert not clean_samples(torch.full((4,), 1.1), torch.full((4,), 1.1)).any()
