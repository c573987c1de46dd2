"""Lemma 1 of ReBias: for linear maps of a Gaussian, independence is orthogonality."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossbias.functional import hsic, median_bandwidth

SAMPLES = 200
SHUFFLES = 40


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def orthogonal_complement_of_kernel(matrix: Tensor) -> Tensor:
    """An orthonormal basis of ker(matrix)^perp, in rows."""
    _, singular, rows = torch.linalg.svd(matrix, full_matrices=False)
    return rows[singular > 1e-9 * singular.max()]


def are_orthogonal(a: Tensor, b: Tensor, covariance: Tensor) -> bool:
    """Whether ker(A)^perp and ker(B)^perp are, with <r, s> = r^T Sigma s."""
    r, s = orthogonal_complement_of_kernel(a), orthogonal_complement_of_kernel(b)
    return bool((r @ covariance @ s.T).abs().max() < 1e-9)


def looks_dependent(u: Tensor, v: Tensor) -> bool:
    """HSIC_1 beyond what it is when the samples of v are shuffled, by six standard deviations."""
    widths = {"sigma_u": median_bandwidth(u), "sigma_v": median_bandwidth(v)}
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.stack(
        [hsic(u, v[torch.randperm(len(v), generator=generator)], **widths) for _ in range(SHUFFLES)]
    )
    return bool(hsic(u, v, **widths) > shuffled.mean() + 6 * shuffled.std())


@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    extra=st.integers(1, 3),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_linear_maps_of_a_gaussian_are_independent_where_they_are_orthogonal(
    sizes: tuple[int, int], extra: int, seed: int
) -> None:
    m, rows = sizes
    n = m + extra
    root = draw(n, n, seed=seed)  # X = root z + mean with covariance Sigma = root root^T
    covariance = root @ root.T
    a, b = draw(m, n, seed=seed + 1), draw(rows, n, seed=seed + 2)
    # B minus its part along A in the inner product of Sigma
    orthogonal = b - b @ covariance @ a.T @ torch.linalg.inv(a @ covariance @ a.T) @ a
    mixed = torch.cat([orthogonal, a[:1]])  # one row shared with A: surely dependent
    x = draw(SAMPLES, n, seed=seed + 3) @ root.T + draw(n, seed=seed + 4)

    assert are_orthogonal(a, orthogonal, covariance)
    assert not looks_dependent(x @ a.T + 1, x @ orthogonal.T - 2)

    assert not are_orthogonal(a, mixed, covariance)
    shared = mixed / (x @ mixed.T).std(0)[:, None]  # rows of one size, that none hides another
    assert looks_dependent(x @ a.T / (x @ a.T).std(0) + 1, x @ shared.T - 2)


def test_one_dimensional_maps_are_independent_where_their_weights_are_perpendicular() -> None:
    """Section 3.2: for a standard normal X, decision boundaries at a right angle."""
    x = draw(400, 2, seed=0)
    weights = {angle: torch.tensor([angle]).deg2rad() for angle in (0.0, 45.0, 90.0)}
    f = x[:, :1]
    found = {
        angle: hsic(f, x @ torch.cat([value.cos(), value.sin()]).double()[:, None]).item()
        for angle, value in weights.items()
    }
    assert found[0.0] > found[45.0] > 10 * abs(found[90.0])
    assert abs(found[90.0]) < 1e-3
