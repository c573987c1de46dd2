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
    ratios = [loss / entropy for loss, entropy in pairs]
    deltas = {
        "losses": sum(loss for loss, _ in pairs) / sum(entropy for _, entropy in pairs),
        "ratios": sum(ratios) / sum(entropy for _, entropy in pairs),
    }
    for threshold, delta in deltas.items():
        clean = clean_samples(losses, entropies, threshold=threshold)
        found = noise_threshold(losses, entropies, threshold=threshold).item()
        assert found == pytest.approx(delta)
        for ratio, kept in zip(ratios, clean.tolist(), strict=True):
            assert kept == (ratio < delta) or ratio == pytest.approx(delta)
    # delta of the losses is a mean of the ratios; rounding decides where they are all the same
    assert not clean_samples(losses, entropies).all() or max(ratios) == pytest.approx(
        deltas["losses"]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_that_is_sure_neither_divides_by_zero_nor_loses_what_it_fitted(dtype):
    losses = torch.tensor([0.0, 0.0, 30.0], dtype=dtype)
    entropies = torch.zeros(3, dtype=dtype)
    assert clean_samples(losses, entropies).tolist() == [True, True, False]
    assert clean_samples(losses[:2], entropies[:2]).tolist() == [True, True]
    for threshold in ("losses", "ratios"):
        for count in (2, 3):
            delta = noise_threshold(losses[:count], entropies[:count], threshold=threshold)
            assert delta.isfinite()


def test_samples_that_are_all_alike_are_all_left_out():
    assert not clean_samples(torch.full((4,), 1.1), torch.full((4,), 1.1)).any()


def test_one_confident_mistake_can_move_the_threshold_of_ratios_alone():
    """The same 100 samples, and one of which the network is wrongly sure."""
    losses, entropies = torch.full((101,), 0.2), torch.full((101,), 0.4)
    losses[100], entropies[100] = 20.0, 1e-6
    assert noise_threshold(losses, entropies) < 1.1
    assert noise_threshold(losses, entropies, threshold="ratios") > 1e5
    assert not clean_samples(losses, entropies)[100]
