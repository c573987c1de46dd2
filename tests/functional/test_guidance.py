"""Guidance of IE: eqs. 7 and 9 against loops over positions."""

import pytest
import torch
from torch import Tensor

from crossbias.functional.attribution import guidance_distance, pooled_guidance


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def naive_guided(maps: Tensor, weight: Tensor) -> Tensor:
    """Eq. 7, position by position, then the average."""
    total = torch.zeros(maps.shape[:2], dtype=torch.float64)
    for row in range(maps.shape[2]):
        for column in range(maps.shape[3]):
            total += maps[:, :, row, column] * weight[:, row, column, None]
    return total / (maps.shape[2] * maps.shape[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_guidance_equals_a_loop_over_positions(dtype: torch.dtype) -> None:
    maps, weight = draw(3, 5, 2, 4), 1 + draw(3, 2, 4, seed=1).abs()
    features, guided = pooled_guidance(maps.to(dtype), weight.to(dtype))
    assert features.dtype == guided.dtype == dtype
    torch.testing.assert_close(guided.double(), naive_guided(maps, weight), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(features.double(), maps.mean((2, 3)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [3, 7, 28])
def test_what_is_not_enhanced_has_no_distance_and_no_gradient(size: int) -> None:
    """To the last bit: the gradient of an absolute value is a sign, however small the value."""
    maps = draw(3, 5, size, size).float().requires_grad_()
    features, guided = pooled_guidance(maps, torch.ones(3, size, size))
    distance = guidance_distance(features, guided.detach())
    (gradient,) = torch.autograd.grad(distance.sum(), maps)
    assert torch.equal(distance, torch.zeros(3))
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_distance_is_the_sum_over_channels() -> None:
    features, guided = draw(4, 6), draw(4, 6, seed=1)
    expected = [
        sum(abs(a - b) for a, b in zip(one.tolist(), other.tolist(), strict=True))
        for one, other in zip(features, guided, strict=True)
    ]
    assert guidance_distance(features, guided).tolist() == pytest.approx(expected)


def test_gradients_are_those_of_finite_differences() -> None:
    maps, weight = draw(2, 3, 2, 2).requires_grad_(), 1 + draw(2, 2, 2, seed=1).abs()
    assert torch.autograd.gradcheck(pooled_guidance, (maps, weight))
    features, guided = draw(3, 4).requires_grad_(), draw(3, 4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(guidance_distance, (features, guided))


def test_half_precision_and_autocast_are_computed_in_float32() -> None:
    maps, weight = draw(2, 3, 2, 2).bfloat16(), 1 + draw(2, 2, 2, seed=1).abs().float()
    expected = torch.stack(pooled_guidance(maps.float(), weight))
    assert torch.equal(torch.stack(pooled_guidance(maps, weight)), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(torch.stack(pooled_guidance(maps, weight)), expected)
    assert guidance_distance(maps[:, :, 0, 0], expected[1]).dtype == torch.float32
