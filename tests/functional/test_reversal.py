"""gradient_reversal: identity forward, reversed and scaled backward, also inside torch.func."""

import pytest
import torch
from torch import Tensor

from crossbias.functional import gradient_reversal


@pytest.mark.parametrize("scale", [0.0, 0.1, 2.5])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_reversal_is_the_identity_with_a_negated_scaled_gradient(
    scale: float, dtype: torch.dtype
) -> None:
    x = torch.tensor([1.0, -2.0, 0.5], dtype=dtype, requires_grad=True)
    weight = torch.tensor([1.0, 2.0, 4.0], dtype=dtype)

    reversed_x = gradient_reversal(x, scale=scale)
    (weight * reversed_x).sum().backward()

    assert torch.equal(reversed_x, x)
    assert reversed_x.dtype == dtype
    assert x.grad is not None
    assert torch.equal(x.grad, -scale * weight)


def test_reversal_turns_only_what_comes_before_it() -> None:
    before = torch.ones(3, requires_grad=True)
    after = torch.full((3,), 2.0, requires_grad=True)

    (gradient_reversal(before, scale=0.5) * after).sum().backward()

    assert before.grad is not None
    assert after.grad is not None
    assert before.grad.tolist() == [-1.0, -1.0, -1.0]
    assert after.grad.tolist() == [1.0, 1.0, 1.0]


def test_reversal_twice_gives_the_product_of_both_scales() -> None:
    x = torch.ones(2, requires_grad=True)

    gradient_reversal(gradient_reversal(x, scale=0.5), scale=3.0).sum().backward()

    assert x.grad is not None
    assert x.grad.tolist() == [1.5, 1.5]


def test_reversal_without_a_gradient_is_harmless() -> None:
    with torch.no_grad():
        assert torch.equal(gradient_reversal(torch.ones(2), scale=1.0), torch.ones(2))


def test_reversal_works_inside_per_sample_gradients() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def square(row: Tensor) -> Tensor:
        return gradient_reversal(row, scale=0.5).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(square))(x)

    assert torch.equal(per_sample, -x)
