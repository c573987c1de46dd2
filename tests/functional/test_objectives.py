"""generalized_cross_entropy and negative_conditional_entropy against their definitions."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import generalized_cross_entropy, negative_conditional_entropy


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def naive_softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(z) for z in logits]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_generalized_cross_entropy_equals_its_definition(dtype: torch.dtype, q: float) -> None:
    logits, target = draw(6, 4, dtype=dtype), torch.tensor([0, 3, 1, 2, 2, 0])
    rows = zip(logits.tolist(), target.tolist(), strict=True)

    losses = generalized_cross_entropy(logits, target, q=q)

    expected = [(1 - naive_softmax(row)[y] ** q) / q for row, y in rows]
    assert losses.dtype == dtype
    assert losses.tolist() == pytest.approx(expected, rel=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_generalized_cross_entropy_gradient_equals_finite_differences(q: float) -> None:
    target = torch.tensor([0, 3, 1])

    assert torch.autograd.gradcheck(
        lambda logits: generalized_cross_entropy(logits, target, q=q), draw(3, 4).requires_grad_()
    )


def test_released_weighting_of_cross_entropy_has_q_times_the_gradient() -> None:
    logits, target, q = draw(5, 4).requires_grad_(), torch.tensor([0, 3, 1, 2, 2]), 0.7
    cross_entropy = F.cross_entropy(logits, target, reduction="none")
    released = (q * (-cross_entropy.detach()).exp() ** q * cross_entropy).sum()

    (of_release,) = torch.autograd.grad(released, logits)
    (ours,) = torch.autograd.grad(generalized_cross_entropy(logits, target, q=q).sum(), logits)

    torch.testing.assert_close(of_release, q * ours)


def test_generalized_cross_entropy_lies_between_cross_entropy_and_one_minus_p() -> None:
    logits, target = draw(6, 4), torch.tensor([0, 3, 1, 2, 2, 0])
    p = logits.softmax(1)[torch.arange(6), target]

    almost_zero = generalized_cross_entropy(logits, target, q=1e-12)
    one = generalized_cross_entropy(logits, target, q=1.0)

    torch.testing.assert_close(
        almost_zero, F.cross_entropy(logits, target, reduction="none"), rtol=1e-9, atol=0
    )
    torch.testing.assert_close(one, 1 - p)


def test_generalized_cross_entropy_is_finite_for_hopeless_and_certain_samples() -> None:
    logits = torch.tensor([[0.0, 500.0], [20.0, 0.0]], requires_grad=True)

    losses = generalized_cross_entropy(logits, torch.tensor([0, 0]), q=0.7)
    losses.sum().backward()

    assert losses.tolist() == pytest.approx([1 / 0.7, 0], abs=1e-6)
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("q", [0.0, -0.1, 1.1, math.nan])
def test_generalized_cross_entropy_refuses_q_outside_its_range(q: float) -> None:
    with pytest.raises(ValueError, match=rf"must be in \(0, 1\], got {q}"):
        generalized_cross_entropy(draw(2, 3), torch.tensor([0, 1]), q=q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("shape", "dim"), [((5, 3), 1), ((2, 4, 3, 2), 1), ((2, 3, 4), -1)])
def test_negative_conditional_entropy_is_the_mean_of_p_log_p(
    dtype: torch.dtype, shape: tuple[int, ...], dim: int
) -> None:
    logits = draw(*shape, dtype=dtype)
    predictions = logits.movedim(dim, -1).reshape(-1, shape[dim]).tolist()

    value = negative_conditional_entropy(logits, dim=dim)

    entropies = [sum(p * math.log(p) for p in naive_softmax(row)) for row in predictions]
    expected = sum(entropies) / len(entropies)
    assert value.dtype == dtype
    assert value.shape == ()
    assert value.item() == pytest.approx(expected, rel=1e-5 if dtype == torch.float32 else 1e-12)


def test_negative_conditional_entropy_gradient_is_that_of_its_value() -> None:
    assert torch.autograd.gradcheck(negative_conditional_entropy, draw(3, 4, 2).requires_grad_())


def test_negative_conditional_entropy_is_smallest_for_the_uniform_and_zero_for_the_certain() -> (
    None
):
    uniform = negative_conditional_entropy(torch.zeros(2, 8)).item()
    certain = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)

    value = negative_conditional_entropy(certain)
    value.backward()

    assert uniform == pytest.approx(-math.log(8))
    assert all(negative_conditional_entropy(draw(1, 8, seed=s)) > uniform for s in range(20))
    assert value.item() == 0
    assert certain.grad is not None
    assert certain.grad.isfinite().all()


def test_descending_negative_conditional_entropy_makes_predictions_uniform() -> None:
    logits = draw(3, 4).requires_grad_()
    before = negative_conditional_entropy(logits)

    for _ in range(200):
        (gradient,) = torch.autograd.grad(negative_conditional_entropy(logits), logits)
        logits = (logits - 5 * gradient).detach().requires_grad_()

    assert negative_conditional_entropy(logits) < before
    for row, column in itertools.product(range(3), range(4)):
        assert logits.softmax(1)[row, column].item() == pytest.approx(0.25, abs=1e-3)
