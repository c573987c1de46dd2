"""Guidance of IE: eqs. 7 and 9 against loops over positions."""

import pytest
import torch
from torch import Tensor

from crossbias.functional.guidance import guidance_distance, guided_features


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
def test_guided_features_equal_a_loop_over_positions(dtype: torch.dtype) -> None:
    maps, weight = draw(3, 5, 2, 4), 1 + draw(3, 2, 4, seed=1).abs()
    found = guided_features(maps.to(dtype), weight.to(dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), naive_guided(maps, weight), rtol=1e-5, atol=1e-6)


def test_weights_of_one_leave_the_average() -> None:
    maps = draw(3, 5, 2, 4)
    found = guided_features(maps, torch.ones(3, 2, 4, dtype=torch.float64))
    torch.testing.assert_close(found, maps.mean((2, 3)))


def test_distance_is_the_sum_over_channels() -> None:
    features, guided = draw(4, 6), draw(4, 6, seed=1)
    expected = [
        sum(abs(a - b) for a, b in zip(one.tolist(), other.tolist(), strict=True))
        for one, other in zip(features, guided, strict=True)
    ]
    assert guidance_distance(features, guided).tolist() == pytest.approx(expected)


def test_gradients_are_those_of_finite_differences() -> None:
    maps, weight = draw(2, 3, 2, 2).requires_grad_(), 1 + draw(2, 2, 2, seed=1).abs()
    assert torch.autograd.gradcheck(guided_features, (maps, weight))
    features, guided = draw(3, 4).requires_grad_(), draw(3, 4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(guidance_distance, (features, guided))


def test_half_precision_and_autocast_are_computed_in_float32() -> None:
    maps, weight = draw(2, 3, 2, 2).bfloat16(), 1 + draw(2, 2, 2, seed=1).abs().float()
    expected = guided_features(maps.float(), weight)
    assert torch.equal(guided_features(maps, weight), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(guided_features(maps, weight), expected)
    assert guidance_distance(maps[:, :, 0, 0], expected).dtype == torch.float32
