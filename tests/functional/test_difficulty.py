"""Averaged losses, the bias-negative score and the weight of LfF, against the papers' words."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossbias.functional.difficulty import (
    NOT_SEEN,
    bias_negative_score,
    class_maximum,
    divided_by_class,
    moving_average,
    relative_difficulty,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_average_over_many_visits_is_eq_1_unrolled() -> None:
    """After t visits: (1 - a)^(t-1) l_1 + sum of a (1 - a)^(t-i) l_i."""
    losses, weight = draw(6, 4), 0.3
    average = torch.full((4,), NOT_SEEN)
    for new in losses:
        average = moving_average(average, new, weight=weight)
    powers = torch.tensor([(1 - weight) ** (6 - visit) for visit in range(1, 7)])
    factors = torch.cat([powers[:1], weight * powers[1:]])
    torch.testing.assert_close(average, (factors[:, None] * losses).sum(0))


def test_a_loss_of_zero_counts_as_seen() -> None:
    zero = moving_average(torch.tensor([NOT_SEEN]), torch.tensor([0.0]), weight=0.3)
    assert moving_average(zero, torch.tensor([1.0]), weight=0.3).item() == pytest.approx(0.3)


def test_score_is_eq_2_and_has_the_sign_of_what_the_loss_did() -> None:
    losses, reference, score = draw(3, 50).double()
    found = bias_negative_score(score, losses, reference, weight=0.2)
    for number in range(50):
        expected = 0.2 * (losses[number] - reference[number]) + 0.8 * score[number]
        assert found[number].item() == pytest.approx(expected.item())
    first = bias_negative_score(torch.zeros(50).double(), losses, reference, weight=0.2)
    assert torch.equal(first > 0, losses > reference)


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_class_maximum_equals_a_loop(sizes: list[int], seed: int) -> None:
    losses = draw(sum(sizes), seed=seed)
    losses = torch.where(draw(len(losses), seed=seed + 1) < 0.3, NOT_SEEN, losses)
    found = class_maximum(losses, torch.tensor(sizes))
    start = 0
    for number, size in enumerate(sizes):
        own = [max(loss, 0.0) for loss in losses[start : start + size].tolist()]
        assert found[number].item() == max(own, default=0.0)
        start += size


def test_weight_of_lff_is_larger_the_harder_a_sample_is_for_the_biased_network_alone() -> None:
    biased, debiased = draw(2, 100)
    weight = relative_difficulty(biased, debiased)
    assert ((weight >= 0) & (weight <= 1)).all()
    torch.testing.assert_close(weight, 1 / (1 + debiased / biased), rtol=1e-4, atol=1e-6)
    assert torch.equal(weight > 0.5, biased > debiased)


def test_nothing_seen_and_nothing_hard_give_finite_weights() -> None:
    zero = torch.zeros(3)
    assert torch.equal(relative_difficulty(zero, zero), zero)
    assert torch.equal(divided_by_class(zero, zero), zero)
