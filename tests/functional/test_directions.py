"""vmf_log_density against its definition and scipy's von Mises-Fisher distribution."""

import math

import pytest
import torch
from scipy.stats import vonmises_fisher
from torch import Tensor

from crossbias.functional import vmf_log_density


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def naive_fit(directions: Tensor) -> tuple[list[list[float]], list[float], float]:
    """Unit rows, mean direction and concentration, as in appendix G of the submission."""
    unit = [[x / math.hypot(*row) for x in row] for row in directions.tolist()]
    resultant = [sum(column) for column in zip(*unit, strict=True)]
    r = math.hypot(*resultant) / len(unit)
    mean = [x / math.hypot(*resultant) for x in resultant]
    return unit, mean, r * (len(mean) - r**2) / (1 - r**2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5, 3), (40, 8), (3, 20)])
def test_vmf_log_density_is_kappa_times_the_cosine_with_the_mean(
    dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    directions = draw(*shape, dtype=dtype) + 0.7
    unit, mean, kappa = naive_fit(directions)

    values = vmf_log_density(directions)

    expected = [kappa * sum(x * u for x, u in zip(row, mean, strict=True)) for row in unit]
    assert values.dtype == dtype
    assert values.tolist() == pytest.approx(expected, rel=1e-4 if dtype == torch.float32 else 1e-10)


def test_differences_equal_those_of_the_normalized_density() -> None:
    directions = draw(12, 4) + 0.5
    unit, mean, kappa = naive_fit(directions)

    values = vmf_log_density(directions)

    exact = torch.tensor(vonmises_fisher(mean, kappa).logpdf(unit))
    torch.testing.assert_close(values - values[0], exact - exact[0])


def test_kappa_estimated_from_many_draws_is_that_of_the_distribution() -> None:
    mean, kappa = [0.0, 0.6, 0.8], 20.0
    draws = torch.tensor(vonmises_fisher(mean, kappa).rvs(4000, random_state=0))

    values = vmf_log_density(draws)

    # the slope of the log-density along the cosine with the true mean is kappa
    cosine = draws @ torch.tensor(mean, dtype=torch.float64)
    slope = (values.max() - values.min()) / (cosine.max() - cosine.min())
    assert slope.item() == pytest.approx(kappa, rel=0.05)


def test_length_of_a_gradient_does_not_change_its_direction() -> None:
    directions = draw(6, 3, dtype=torch.float32)
    lengths = torch.tensor([1e-30, 1e-12, 1.0, 1e6, 1e25, 0.5])[:, None]

    torch.testing.assert_close(vmf_log_density(directions * lengths), vmf_log_density(directions))


def test_an_outlier_is_less_dense_than_the_crowd() -> None:
    directions = draw(20, 5) * 0.1 + 1
    directions[7] = -directions[7]

    values = vmf_log_density(directions)

    assert values.argmin() == 7
    assert values[7] < 0 < values[torch.arange(20) != 7].min()


def test_zero_rows_count_as_nothing_and_lie_at_a_right_angle() -> None:
    directions = draw(8, 3) + 1
    with_zeros = torch.cat((directions, torch.zeros(3, 3)))

    values = vmf_log_density(with_zeros)

    torch.testing.assert_close(values[:8], vmf_log_density(directions))
    assert values[8:].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(torch.full((1, 500), 0.3), id="single row"),
        pytest.param(torch.full((30, 500), 0.3), id="identical rows"),
        pytest.param(torch.full((30, 5000), 0.3), id="identical rows in many dimensions"),
        pytest.param(torch.zeros(4, 3), id="all zero"),
        pytest.param(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), id="no mean direction"),
        pytest.param(torch.full((5, 1), 2.0), id="one dimension"),
    ],
)
def test_degenerate_rows_give_finite_values_and_gradients(rows: Tensor, dtype: torch.dtype) -> None:
    directions = rows.to(dtype, copy=True).requires_grad_()

    values = vmf_log_density(directions)
    values.sum().backward()

    assert values.isfinite().all()
    assert directions.grad is not None
    assert directions.grad.isfinite().all()
    assert (values.max() - values.min()).item() <= 1  # none is more typical than another


def test_nothing_overflows_in_many_dimensions() -> None:
    directions = draw(50, 100_000, dtype=torch.float32) + 20  # kappa is about 4e7

    values = vmf_log_density(directions)

    assert values.isfinite().all()
    assert values.min() > 1e6  # exp of this is far out of float64's range


def test_vmf_log_density_gradient_is_that_of_its_value() -> None:
    assert torch.autograd.gradcheck(vmf_log_density, (draw(5, 3) + 0.5).requires_grad_())
