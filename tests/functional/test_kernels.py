"""hsic and median_bandwidth against loops written from the equations."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossbias.functional import hsic, median_bandwidth
from crossbias.functional.kernels import _cross_covariance, _kernel_minus_one

Matrix = list[list[float]]


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def naive_kernel(x: Tensor, sigma: float) -> Matrix:
    rows = x.tolist()
    return [[math.exp(-(math.dist(a, b) ** 2) / (2 * sigma**2)) for b in rows] for a in rows]


def naive_unbiased(k: Matrix, other: Matrix) -> float:
    """Eq. A3 of ReBias, term by term, with zero diagonals."""
    m = len(k)
    off = [(i, j) for i in range(m) for j in range(m) if i != j]
    trace = sum(k[i][j] * other[j][i] for i, j in off)
    totals = sum(k[i][j] for i, j in off) * sum(other[i][j] for i, j in off)
    cross = sum(k[i][j] * other[j][n] for i, j in off for n in range(m) if n != j)
    return (trace + totals / ((m - 1) * (m - 2)) - 2 * cross / (m - 2)) / (m * (m - 3))


def naive_biased(k: Matrix, other: Matrix) -> float:
    """tr(H K H L) / (m - 1)^2 with the centering matrix H written out."""
    m = len(k)
    h = [[float(i == j) - 1 / m for j in range(m)] for i in range(m)]

    def product(a: Matrix, b: Matrix) -> Matrix:
        return [[sum(a[i][n] * b[n][j] for n in range(m)) for j in range(m)] for i in range(m)]

    chain = product(product(h, k), product(h, other))
    return sum(chain[i][i] for i in range(m)) / (m - 1) ** 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("unbiased", [True, False])
def test_hsic_equals_the_estimators_written_as_loops(dtype: torch.dtype, unbiased: bool) -> None:
    u, v = draw(9, 3), draw(9, 5, seed=1)
    k, other = naive_kernel(u, 1.5), naive_kernel(v, 2.5)
    expected = naive_unbiased(k, other) if unbiased else naive_biased(k, other)

    actual = hsic(u.to(dtype), v.to(dtype), sigma_u=1.5, sigma_v=2.5, unbiased=unbiased)

    assert actual.dtype == dtype
    assert actual.item() == pytest.approx(expected, abs=1e-7 if dtype == torch.float32 else 1e-14)


def test_unbiased_hsic_equals_the_u_statistic_over_all_quadruples() -> None:
    u, v = draw(7, 2), draw(7, 3, seed=1)
    k, other = naive_kernel(u, 1.0), naive_kernel(v, 1.0)
    terms = [
        k[i][j] * (other[i][j] + other[p][q] - 2 * other[i][p])
        for i, j, p, q in itertools.permutations(range(7), 4)
    ]

    assert hsic(u, v).item() == pytest.approx(sum(terms) / len(terms), abs=1e-14)


def test_unbiased_hsic_equals_the_released_handling_of_the_diagonal() -> None:
    u, v = draw(8, 3), draw(8, 3, seed=1)
    k, other = (torch.tensor(naive_kernel(x, 1.0), dtype=torch.float64) for x in (u, v))
    k, other = k - k.diagonal(), other - other.diagonal()  # from every row, not only its place
    m = len(k)
    trace, totals, cross = (k @ other).trace(), k.sum() * other.sum(), (k @ other).sum()
    released = (trace + totals / ((m - 1) * (m - 2)) - 2 * cross / (m - 2)) / (m * (m - 3))

    assert hsic(u, v).item() == pytest.approx(released.item(), abs=1e-14)


def test_unbiased_hsic_does_not_see_a_shift_of_off_diagonal_kernel_entries() -> None:
    off_diagonal = 1 - torch.eye(6, dtype=torch.float64)
    k, other = (x @ x.T * off_diagonal for x in (draw(6, 3), draw(6, 2, seed=1)))

    shifted = _cross_covariance(k + 3 * off_diagonal, other - 2 * off_diagonal, True)

    assert shifted.item() == pytest.approx(_cross_covariance(k, other, True).item())
    assert shifted.item() == pytest.approx(naive_unbiased(k.tolist(), other.tolist()))


@pytest.mark.parametrize("unbiased", [True, False])
def test_hsic_gradient_is_that_of_its_value(unbiased: bool) -> None:
    sigmas = [torch.tensor(s, dtype=torch.float64, requires_grad=True) for s in (0.8, 1.7)]
    u, v = draw(6, 3).requires_grad_(), draw(6, 2, seed=1).requires_grad_()

    def value(u: Tensor, v: Tensor, sigma_u: Tensor, sigma_v: Tensor) -> Tensor:
        return hsic(u, v, sigma_u=sigma_u, sigma_v=sigma_v, unbiased=unbiased)

    assert torch.autograd.gradcheck(value, (u, v, *sigmas))


@given(
    m=st.integers(4, 9),
    dims=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    seed=st.integers(0, 99),
    distinct=st.integers(1, 9),
    unbiased=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_hsic_is_symmetric_and_biased_never_negative(
    m: int, dims: tuple[int, int], seed: int, distinct: int, unbiased: bool
) -> None:
    rows = torch.arange(m) % distinct  # identical rows among them
    u = draw(m, dims[0], seed=seed)[rows].requires_grad_()
    v = draw(m, dims[1], seed=seed + 1)[rows.flip(0)]

    value = hsic(u, v, sigma_u=0.7, sigma_v=1.3, unbiased=unbiased)
    value.backward()

    swapped = hsic(v, u, sigma_u=1.3, sigma_v=0.7, unbiased=unbiased)
    assert value.item() == pytest.approx(swapped.item(), abs=1e-14)
    assert unbiased or value.item() > -1e-15
    assert u.grad is not None
    assert u.grad.isfinite().all()


@pytest.mark.parametrize("unbiased", [True, False])
def test_hsic_with_a_constant_is_exactly_zero_and_its_gradient_finite(unbiased: bool) -> None:
    u = draw(8, 4, dtype=torch.float32).requires_grad_()
    v = torch.full((8, 3), 0.1, requires_grad=True)

    value = hsic(u, v, unbiased=unbiased)
    value.backward()

    assert value.item() == 0
    assert u.grad is not None
    assert v.grad is not None
    assert u.grad.abs().max() == 0
    assert v.grad.abs().max() < 1e-6  # rows that coincide do not push each other apart


def test_unbiased_hsic_of_independent_samples_has_mean_zero_and_biased_has_not() -> None:
    def mean_over_errors(unbiased: bool) -> float:
        draws = torch.stack(
            [
                hsic(draw(6, 2, seed=2 * i), draw(6, 2, seed=2 * i + 1), unbiased=unbiased)
                for i in range(600)
            ]
        )
        return (draws.mean() / (draws.std() / len(draws) ** 0.5)).item()

    assert abs(mean_over_errors(unbiased=True)) < 3.5
    assert mean_over_errors(unbiased=False) > 50


def test_hsic_grows_with_dependence() -> None:
    u, noise = draw(64, 2), draw(64, 2, seed=1)

    independent, mixed, same = hsic(u, noise), hsic(u, u + noise), hsic(u, u)

    assert independent.abs() < mixed < same


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("unbiased", [True, False])
def test_float32_hsic_keeps_its_digits_far_from_the_origin(offset: float, unbiased: bool) -> None:
    u = (draw(64, 16) + offset).float()
    v = (u.double()[:, :8] + draw(64, 8, seed=1)).float()
    widths = {"sigma_u": 4.0, "sigma_v": 4.0}

    expected = hsic(u.double(), v.double(), unbiased=unbiased, **widths).item()

    assert hsic(u, v, unbiased=unbiased, **widths).item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_no_two_rows_are_closer_than_a_row_to_itself(seed: int) -> None:
    # rows so close, and so far from the origin, that |a|^2 + |b|^2 - 2ab falls below 0
    rows = 100 * draw(8, 16, seed=seed, dtype=torch.float32)
    nearly = rows + 1e-5 * draw(8, 16, seed=seed + 1, dtype=torch.float32)

    kernel = _kernel_minus_one(torch.cat((rows, nearly)), 1.0)

    assert kernel.max() == 0
    assert torch.equal(kernel.diagonal(), torch.zeros(16))


def test_sigma_may_be_a_number_or_a_tensor_and_each_belongs_to_its_own_input() -> None:
    u, v = draw(8, 3), draw(8, 3, seed=1)

    numbers = hsic(u, v, sigma_u=0.5, sigma_v=2.0)
    tensors = hsic(u, v, sigma_u=torch.tensor(0.5), sigma_v=torch.tensor(2.0))
    swapped = hsic(u, v, sigma_u=2.0, sigma_v=0.5)

    assert tensors.item() == pytest.approx(numbers.item(), rel=1e-6)
    assert swapped.item() != pytest.approx(numbers.item(), rel=1e-2)


def test_hsic_refuses_what_it_cannot_compare() -> None:
    with pytest.raises(ValueError, match="at least 4 samples"):
        hsic(draw(3, 2), draw(3, 2))
    with pytest.raises(ValueError, match="at least 2 samples"):
        hsic(draw(1, 2), draw(1, 2), unbiased=False)
    with pytest.raises(ValueError, match=r"\(5, 2\) and \(6, 2\)"):
        hsic(draw(5, 2), draw(6, 2))
    with pytest.raises(ValueError, match=r"\(5,\) and \(5, 2\)"):
        hsic(draw(5), draw(5, 2))
    with pytest.raises(ValueError, match="must be positive, got 0"):
        hsic(draw(5, 2), draw(5, 2), sigma_v=0.0)


@pytest.mark.parametrize("m", [2, 5, 8])
def test_median_bandwidth_is_the_middle_distance(m: int) -> None:
    x = draw(m, 3)
    squares = sorted(math.dist(a, b) ** 2 for a, b in itertools.combinations(x.tolist(), 2))
    lower_median = squares[(len(squares) - 1) // 2]

    assert median_bandwidth(x).item() == pytest.approx(lower_median**0.5)


def test_median_bandwidth_of_collapsed_features_keeps_hsic_and_its_gradient_finite() -> None:
    x = torch.ones(8, 4)
    x[0] = 2.0  # most pairs coincide, so the median distance is 0
    x.requires_grad_()

    sigma = median_bandwidth(x)
    value = hsic(x, draw(8, 4, dtype=torch.float32), sigma_u=sigma)
    value.backward()

    assert sigma.item() == pytest.approx(1e-3)
    assert not sigma.requires_grad
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert value.isfinite()


def test_median_bandwidth_refuses_fewer_than_two_rows() -> None:
    with pytest.raises(ValueError, match="at least two rows"):
        median_bandwidth(torch.ones(1, 4))
