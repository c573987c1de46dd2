"""cam against autograd Grad-CAM; intrinsic_weight against loops over eqs. 4-6 of IE."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from crossbias.functional import cam, intrinsic_weight


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def autograd_grad_cam(maps: Tensor, head: nn.Linear, label: int) -> Tensor:
    """Grad-CAM of one sample: maps weighed by the mean gradient of the class's logit."""
    maps = maps.detach().requires_grad_()
    logit = head(maps.mean((1, 2)))[label]
    (gradient,) = torch.autograd.grad(logit, maps)
    explanation = (gradient.mean((1, 2))[:, None, None] * maps.detach()).sum(0).relu()
    return explanation / explanation.max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cam_equals_autograd_grad_cam(dtype: torch.dtype) -> None:
    maps, head = draw(4, 6, 3, 5, dtype=dtype), nn.Linear(6, 3, dtype=dtype)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(1))
    target = torch.tensor([2, 0, 1, 2])

    explanation = cam(maps, head.weight, target)

    expected = [autograd_grad_cam(maps[i], head, int(target[i])) for i in range(4)]
    assert explanation.dtype == dtype
    torch.testing.assert_close(explanation, torch.stack(expected))


def test_flipping_the_sign_of_the_head_explains_the_other_positions() -> None:
    maps, weight, target = draw(3, 4, 5, 5), draw(2, 4, seed=1), torch.tensor([0, 1, 0])

    explanation, flipped = cam(maps, weight, target), cam(maps, -weight, target)

    assert torch.equal(explanation > 0, flipped == 0)
    assert explanation.amax((1, 2)).tolist() == flipped.amax((1, 2)).tolist() == [1, 1, 1]


def test_cam_that_is_nowhere_positive_is_zero_with_a_finite_gradient() -> None:
    maps = torch.cat((-torch.ones(1, 2, 3, 3), torch.zeros(1, 2, 3, 3))).requires_grad_()
    weight = torch.ones(2, 2, requires_grad=True)

    explanation = cam(maps, weight, torch.tensor([0, 1]))
    explanation.sum().backward()

    assert torch.equal(explanation, torch.zeros(2, 3, 3))
    assert maps.grad is not None
    assert weight.grad is not None
    assert maps.grad.isfinite().all()
    assert weight.grad.isfinite().all()


def test_cam_gradient_is_that_of_its_value() -> None:
    target = torch.tensor([1, 0])

    assert torch.autograd.gradcheck(
        lambda maps, weight: cam(maps, weight, target),
        (draw(2, 3, 2, 3).requires_grad_(), draw(2, 3, seed=1).requires_grad_()),
    )


def naive_intrinsic_weight(
    maps: Tensor, partner_maps: Tensor, used: Tensor, partner_used: Tensor, tau: float
) -> Tensor:
    """Eqs. 4, 5 and 6 for one sample, position by position; 0/0 and no likeness give 0."""
    z, partner = maps.flatten(1).T.tolist(), partner_maps.flatten(1).T.tolist()
    e, partner_e = used.flatten().tolist(), partner_used.flatten().tolist()
    products = [[sum(a * b for a, b in zip(i, n, strict=True)) for i in partner] for n in z]
    highest = max(max(row) for row in products)
    weights = []
    for n, row in enumerate(products):
        star = row.index(max(row))
        common = row[star] / highest if highest > 0 else 0.0
        together = partner_e[star] + e[n]
        relative = (2 * partner_e[star] / together) ** tau if together else 0.0**tau
        weights.append(max(common * relative, 1.0))
    return torch.tensor(weights, dtype=torch.float64).view_as(used)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    seed=st.integers(0, 999),
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    dimensions=st.integers(1, 5),
    tau=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    sparse=st.booleans(),
    relu=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_intrinsic_weight_equals_the_loops(
    dtype: torch.dtype,
    seed: int,
    size: tuple[int, int],
    dimensions: int,
    tau: float,
    sparse: bool,
    relu: bool,
) -> None:
    maps, partner = draw(3, dimensions, *size, seed=seed), draw(3, dimensions, 3, 2, seed=seed + 1)
    if relu:
        maps, partner = maps.relu(), partner.relu()
    used, partner_used = draw(3, *size, seed=seed + 2).abs(), draw(3, 3, 2, seed=seed + 3).abs()
    if sparse:
        used, partner_used = (used - 1).relu(), (partner_used - 1).relu()

    inputs = (maps, partner, used, partner_used)
    weight = intrinsic_weight(*(x.to(dtype) for x in inputs), tau=tau)

    expected = torch.stack([naive_intrinsic_weight(*sample, tau) for sample in zip(*inputs)])  # noqa: B905
    assert weight.dtype == dtype
    torch.testing.assert_close(weight.double(), expected, rtol=1e-4, atol=1e-6)
    assert ((weight >= 1) & (weight <= 2**tau + 1e-6)).all()


def test_under_exploited_common_feature_gets_two_to_the_tau_at_most() -> None:
    maps = torch.zeros(1, 2, 1, 3)
    maps[0, :, 0] = torch.eye(2, 3)  # the third position has no feature
    used, partner_used = torch.tensor([[[0.0, 1.0, 0.0]]]), torch.tensor([[[1.0, 1.0, 0.0]]])

    weight = intrinsic_weight(maps, maps, used, partner_used, tau=3.0)

    assert weight.tolist() == [[[8.0, 1.0, 1.0]]]


@pytest.mark.parametrize(
    ("maps", "partner"),
    [
        pytest.param(torch.zeros(2, 3, 2, 2), torch.zeros(2, 3, 2, 2), id="no features"),
        pytest.param(torch.ones(2, 3, 2, 2), -torch.ones(2, 3, 2, 2), id="only opposite features"),
        pytest.param(torch.ones(2, 3, 1, 1), torch.ones(2, 3, 1, 1), id="one position"),
    ],
)
def test_zero_maps_and_zero_explanations_give_a_weight_of_one(
    maps: Tensor, partner: Tensor
) -> None:
    zero = torch.zeros(2, *maps.shape[2:])

    weight = intrinsic_weight(maps, partner, zero, zero, tau=2.0)

    assert torch.equal(weight, torch.ones_like(zero))


def test_opposite_features_are_not_enhanced_even_if_under_exploited() -> None:
    maps, partner = torch.ones(1, 1, 1, 2), torch.tensor([[[[-1.0, -2.0]]]])

    weight = intrinsic_weight(maps, partner, torch.zeros(1, 1, 2), torch.ones(1, 1, 2), tau=2.0)

    assert weight.tolist() == [[[1.0, 1.0]]]


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
def test_the_gradient_of_the_weight_is_that_of_r_where_it_enhances(tau: float) -> None:
    """By hand, d r / d E_n = -tau r / (E_i*^BN + E_n); c, maps and partner are constants."""
    maps, partner = draw(2, 3, 2, 2).requires_grad_(), draw(2, 3, 2, 2, seed=1).requires_grad_()
    used = (draw(2, 2, 2, seed=2).abs() / 4).requires_grad_()
    partner_used = draw(2, 2, 2, seed=3).abs().requires_grad_()

    weight = intrinsic_weight(maps, partner, used, partner_used, tau=tau)
    (gradient,) = torch.autograd.grad(weight.sum(), used)

    match = (partner.flatten(2).mT @ maps.flatten(2)).argmax(1)
    together = partner_used.flatten(1).gather(1, match).view_as(used) + used
    expected = torch.where(weight > 1, -tau * weight / together, 0.0)
    assert (weight > 1).any()
    assert (weight == 1).any()
    torch.testing.assert_close(gradient, expected.detach())
    total = intrinsic_weight(maps, partner, used, partner_used, tau=tau).sum()
    others = torch.autograd.grad(total, (maps, partner, partner_used), allow_unused=True)
    assert others == (None, None, None)


@pytest.mark.parametrize("tau", [0.0, 0.5, 2.0])
def test_the_gradient_is_zero_where_nothing_is_enhanced(tau: float) -> None:
    """At 0 / 0, at powers of 0, and where both look at a feature equally."""
    maps = torch.ones(3, 2, 2, 2)
    used = torch.stack([torch.zeros(2, 2), torch.ones(2, 2), torch.ones(2, 2)]).requires_grad_()
    partner_used = torch.stack([torch.zeros(2, 2), torch.zeros(2, 2), torch.ones(2, 2)])
    weight = intrinsic_weight(maps, maps, used, partner_used, tau=tau)
    (gradient,) = torch.autograd.grad(weight.sum(), used)
    assert torch.equal(weight, torch.ones_like(weight))
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_an_explanation_without_gradient_gives_a_weight_without_it() -> None:
    maps, used = draw(2, 3, 2, 2).requires_grad_(), draw(2, 2, 2).abs()
    assert not intrinsic_weight(maps, maps, used, used, tau=1.0).requires_grad


def test_intrinsic_weight_refuses_a_negative_amplification() -> None:
    maps, used = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        intrinsic_weight(maps, maps, used, used, tau=-1.0)
