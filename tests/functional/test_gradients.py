"""head_gradient_norm against autograd, one sample at a time."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from crossbias.functional import head_gradient_norm


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def autograd_norm(head: nn.Linear, features: Tensor, target: Tensor) -> list[float]:
    head, features = head.double(), features.double()
    norms = []
    for feature, label in zip(features, target, strict=True):
        loss = F.cross_entropy(head(feature[None]), label[None])
        gradients = torch.autograd.grad(loss, list(head.parameters()))
        norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm().item())
    return norms


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
@given(
    batch=st.integers(1, 5),
    classes=st.integers(2, 6),
    dimensions=st.integers(1, 6),
    seed=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_head_gradient_norm_equals_autograd_one_sample_at_a_time(
    dtype: torch.dtype, bias: bool, batch: int, classes: int, dimensions: int, seed: int
) -> None:
    head = nn.Linear(dimensions, classes, bias=bias, dtype=dtype)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(seed))
    if bias:
        nn.init.normal_(head.bias, generator=torch.Generator().manual_seed(seed + 1))
    features = draw(batch, dimensions, seed=seed, dtype=dtype)
    target = torch.arange(batch) % classes

    norms = head_gradient_norm(head(features), target, features, bias=bias)

    assert norms.dtype == dtype
    expected = autograd_norm(head, features, target)
    assert norms.tolist() == pytest.approx(expected, rel=1e-4 if dtype == torch.float32 else 1e-11)


@pytest.mark.parametrize("bias", [True, False])
def test_head_gradient_norm_is_differentiable_itself(bias: bool) -> None:
    target = torch.tensor([0, 2, 1])

    assert torch.autograd.gradcheck(
        lambda logits, features: head_gradient_norm(logits, target, features, bias=bias),
        (draw(3, 4).requires_grad_(), draw(3, 2, seed=1).requires_grad_()),
    )


@pytest.mark.parametrize("margin", [10.0, 20.0, 40.0, 80.0])
def test_well_fitted_samples_keep_their_digits_in_float32(margin: float) -> None:
    logits, features = torch.tensor([[margin + 3, 3.0, 3.0]]), torch.tensor([[3.0, 4.0]])

    norm = head_gradient_norm(logits, torch.tensor([0]), features, bias=False)

    rest = math.exp(-margin)  # of each of the two other classes, before normalizing
    expected = 5 * math.sqrt(rest**2 + rest**2 + (2 * rest) ** 2) / (1 + 2 * rest)
    assert norm.item() == pytest.approx(expected, rel=1e-5)


def test_hopeless_samples_have_the_largest_norm_and_no_overflow() -> None:
    logits = torch.tensor([[1e4, 0.0], [0.0, 1e4]], requires_grad=True)

    norms = head_gradient_norm(logits, torch.tensor([1, 1]), torch.zeros(2, 3))
    norms.sum().backward()

    assert norms.tolist() == [pytest.approx(math.sqrt(2)), 0.0]
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_norm_is_zero_with_finite_gradient_when_features_vanish_and_the_bias_is_left_out() -> None:
    features = torch.zeros(1, 3, requires_grad=True)

    norm = head_gradient_norm(torch.tensor([[1.0, 2.0]]), torch.tensor([0]), features, bias=False)
    norm.sum().backward()

    assert norm.item() == 0
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_head_gradient_norm_refuses_a_single_class() -> None:
    with pytest.raises(ValueError, match=r"got \(3, 1\)"):
        head_gradient_norm(torch.zeros(3, 1), torch.zeros(3, dtype=torch.int64), torch.zeros(3, 2))
