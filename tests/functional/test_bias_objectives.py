"""confusion and bias_cross_entropy against their definitions."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional import bias_cross_entropy, confusion


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("shape", "dim"), [((5, 3), 1), ((2, 4, 3, 2), 1), ((2, 3, 4), -1)])
def test_confusion_is_the_cross_entropy_with_a_uniform_distribution(
    dtype: torch.dtype, shape: tuple[int, ...], dim: int
) -> None:
    logits = draw(*shape, dtype=dtype)
    rows = logits.movedim(dim, -1).reshape(-1, shape[dim])

    value = confusion(logits, dim=dim)

    uniform = torch.full_like(rows, 1 / shape[dim])
    assert value.dtype == dtype
    torch.testing.assert_close(value, F.cross_entropy(rows, uniform))


def test_confusion_has_the_gradient_of_its_value_and_is_smallest_for_the_uniform() -> None:
    assert torch.autograd.gradcheck(confusion, draw(3, 4, 2).requires_grad_())
    uniform = confusion(torch.zeros(2, 8)).item()
    assert uniform == pytest.approx(math.log(8))
    assert all(confusion(draw(1, 8, seed=s)) > uniform for s in range(20))


def naive(logits: Tensor, bias: Tensor) -> float:
    """Eq. 7 with a mean for each channel over what is known, one entry at a time."""
    total = 0.0
    for channel in range(bias.shape[1]):
        found = []
        for sample in range(bias.shape[0]):
            for row in range(bias.shape[2]):
                for column in range(bias.shape[3]):
                    level = int(bias[sample, channel, row, column])
                    scores = logits[sample, :, channel, row, column].tolist()
                    if level >= 0:
                        normalizer = math.log(sum(math.exp(score) for score in scores))
                        found.append(normalizer - scores[level])
        total += sum(found) / len(found) if found else 0.0
    return total


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bias_cross_entropy_of_colors_is_a_mean_for_each_channel_and_their_sum(
    dtype: torch.dtype,
) -> None:
    logits = draw(4, 8, 3, 5, 5, dtype=dtype)
    bias = torch.randint(0, 8, (4, 3, 5, 5), generator=torch.Generator().manual_seed(1))
    bias[draw(4, 3, 5, 5, seed=2) > 0.3] = -100
    value = bias_cross_entropy(logits, bias)
    assert value.dtype == dtype
    assert value.item() == pytest.approx(naive(logits, bias), rel=1e-5)
    bias[:, 1] = -100  # a channel without any level adds nothing
    assert bias_cross_entropy(logits, bias).item() == pytest.approx(naive(logits, bias), rel=1e-5)


def test_bias_cross_entropy_of_labels_is_cross_entropy_where_they_are_known() -> None:
    logits, bias = draw(6, 4), torch.tensor([0, -1, 3, 2, -1, 1])
    known = bias >= 0
    expected = F.cross_entropy(logits[known], bias[known])
    torch.testing.assert_close(bias_cross_entropy(logits, bias), expected)


def test_bias_cross_entropy_gradient_is_that_of_its_value_and_zero_where_nothing_is_known() -> None:
    bias = torch.tensor([0, -1, 3])
    inputs = draw(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda logits: bias_cross_entropy(logits, bias), inputs)
    value = bias_cross_entropy(inputs, torch.full((3,), -1))
    (gradient,) = torch.autograd.grad(value, inputs)
    assert value == 0
    assert not gradient.any()
