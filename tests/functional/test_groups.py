"""Means and weights of groups, against loops written from Algorithm 1 of GroupDRO."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossbias.functional import exponentiated_gradient, group_means


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


@settings(max_examples=30, deadline=None)
@given(group=st.lists(st.integers(0, 4), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_means_equal_a_loop(group: list[int], seed: int) -> None:
    losses = draw(len(group), seed=seed)
    found = group_means(losses, torch.tensor(group), num_groups=5)
    for number in range(5):
        own = [loss for loss, own in zip(losses.tolist(), group, strict=True) if own == number]
        assert found[number].item() == pytest.approx(sum(own) / len(own) if own else 0.0)


def test_the_gradient_of_a_mean_is_one_over_the_size_of_its_group() -> None:
    losses, group = draw(5).requires_grad_(), torch.tensor([0, 2, 2, 0, 2])
    assert torch.autograd.gradcheck(lambda x: group_means(x, group, num_groups=4), losses)
    weight = torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
    (weight @ group_means(losses, group, num_groups=4)).backward()
    assert losses.grad is not None
    assert losses.grad.tolist() == pytest.approx([0.5, 100 / 3, 100 / 3, 0.5, 100 / 3])


def test_weights_over_many_steps_are_the_products_of_the_paper() -> None:
    losses, step_size = draw(30, 4), 0.7
    weights = [0.25] * 4
    log_weights = torch.tensor(weights, dtype=torch.float64).log()
    for step in losses:
        grown = [
            q * math.exp(step_size * loss) for q, loss in zip(weights, step.tolist(), strict=True)
        ]
        weights = [q / sum(grown) for q in grown]
        log_weights = exponentiated_gradient(log_weights, step, step_size=step_size)
    assert log_weights.exp().tolist() == pytest.approx(weights)
    assert torch.autograd.gradcheck(
        lambda x: exponentiated_gradient(log_weights, x, step_size=step_size),
        losses[0].clone().requires_grad_(),
    )


def test_a_weight_comes_back_after_it_was_too_small_for_float32() -> None:
    log_weights = torch.tensor([0.5, 0.5]).log()
    for losses in (torch.tensor([300.0, 0.0]), torch.tensor([0.0, 300.0])):
        log_weights = exponentiated_gradient(log_weights, losses, step_size=1.0)
    assert log_weights.exp().tolist() == pytest.approx([0.5, 0.5], rel=1e-3)
