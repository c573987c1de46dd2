"""Dependence between two representations, measured with Gaussian kernels."""

from typing import Any, Final

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast

_SMALLEST_BANDWIDTH: Final = 1e-3


def hsic(
    u: Tensor,
    v: Tensor,
    *,
    sigma_u: float | Tensor = 1.0,
    sigma_v: float | Tensor = 1.0,
    unbiased: bool = True,
) -> Tensor:
    r"""Hilbert-Schmidt independence criterion, as in ReBias (Bahng et al., ICML 2020), eq. A3.

    With Gaussian kernel matrices :math:`K_{ij} = \exp(-\|u_i - u_j\|^2 / 2\sigma_u^2)` and
    :math:`L` likewise from :math:`v`, and :math:`\tilde K, \tilde L` their copies with a zero
    diagonal, the unbiased estimator (Song et al., JMLR 2012) is

    .. math:: \mathrm{HSIC}_1 = \frac{1}{m(m-3)} \Big[ \mathrm{tr}(\tilde K \tilde L)
        + \frac{1^T \tilde K 1 \cdot 1^T \tilde L 1}{(m-1)(m-2)}
        - \frac{2}{m-2} 1^T \tilde K \tilde L 1 \Big]

    and the biased one (Gretton et al., ALT 2005) is
    :math:`\mathrm{HSIC}_0 = \mathrm{tr}(HKHL) / (m-1)^2` with :math:`H = I - 11^T/m`. The
    unbiased value is zero in the mean for independent samples, so it may be negative.

    Args:
        u: ``(m, D)`` features of one network, the paper's :math:`f(X)`.
        v: ``(m, D')`` features of the other on the same samples, :math:`g(X)`.
        sigma_u: Width of the kernel on ``u``, a number or a 0-dimensional tensor. The paper
            uses 1 on Biased MNIST and the median distance elsewhere (``median_bandwidth``).
        sigma_v: Width of the kernel on ``v``.
        unbiased: :math:`\mathrm{HSIC}_1` if true, else :math:`\mathrm{HSIC}_0`.

    Returns:
        A scalar, in float32 or better.

    Raises:
        ValueError: The two do not hold the same samples, there are fewer than 4 (2 if biased)
            of them, or a width is not positive.

    >>> u = torch.tensor([[0.0], [0.0], [9.0], [9.0]])
    >>> round(hsic(u, u).item(), 4), round(hsic(u, u, unbiased=False).item(), 4)
    (0.6667, 0.4444)
    >>> hsic(u, torch.ones(4, 2)).item()
    0.0
    """
    if u.ndim != 2 or v.ndim != 2 or len(u) != len(v):
        raise ValueError(
            "hsic compares two (m, D) matrices with one row per sample, "
            f"got {tuple(u.shape)} and {tuple(v.shape)}"
        )
    smallest = 4 if unbiased else 2
    if len(u) < smallest:
        raise ValueError(
            f"the batch must have at least {smallest} samples for "
            f"{'unbiased' if unbiased else 'biased'} HSIC, got {len(u)}; "
            "use larger batches or drop the last one"
        )
    with no_autocast(u):
        return _cross_covariance(
            _kernel_minus_one(u, sigma_u), _kernel_minus_one(v, sigma_v), unbiased
        )


def median_bandwidth(*batches: Tensor) -> Tensor:
    r"""The median heuristic for the kernel width, as in ReBias (Bahng et al., ICML 2020).

    The square root of the median of :math:`\|x_i - x_j\|^2` over all pairs :math:`i < j` of the
    same batch. The authors' code also counts each sample's distance 0 to itself, one entry in
    ``m``. Where the features have collapsed onto few points the median may be 0; the width never
    falls below 0.001, because the kernel's gradient grows as one over the width.

    Args:
        *batches: ``(m, D)`` features, at least two rows each.

    Returns:
        A positive scalar, in float32 or better, through which no gradient flows.

    >>> median_bandwidth(torch.tensor([[0.0], [3.0], [4.0]])).item()
    3.0
    """
    shapes = [tuple(batch.shape) for batch in batches]
    if not shapes or any(len(shape) != 2 or shape[0] < 2 for shape in shapes):
        raise ValueError(f"the median distance needs at least two rows, got {shapes}")
    distances = torch.cat([torch.pdist(at_least_float32(batch.detach())) for batch in batches])
    # a root is monotonic, so the root of the median is the median of the roots
    return distances.median().clamp(min=_SMALLEST_BANDWIDTH)


def _kernel_minus_one(x: Tensor, sigma: float | Tensor) -> Tensor:
    """The kernel matrix minus one, (m, m): accurate for close rows, exactly 0 on the diagonal."""
    if not isinstance(sigma, Tensor) and not sigma > 0:
        raise ValueError(f"a kernel's width must be positive, got {sigma}")
    x = at_least_float32(x) / sigma
    # Distances do not depend on the origin, so no gradient flows into it; around the mean the
    # least is lost to cancellation.
    kernel: Tensor = _UnitKernelMinusOne.apply(x - x.detach().mean(0))
    return kernel


class _UnitKernelMinusOne(torch.autograd.Function):
    """exp(-|x_i - x_j|^2 / 2) - 1 of all pairs, with a gradient of five kernels instead of twenty.

    On a GPU the matrices are so small that a step of ReBias pays for launches, not for numbers.
    """

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        gram = x @ x.T
        # squared norms from the product itself: however rounded, an own distance is exactly 0
        norms = gram.diagonal()
        exponent = gram.sub(norms, alpha=0.5).sub_(norms[:, None], alpha=0.5)
        return exponent.clamp_(max=0).expm1_()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor
        x, kernel_minus_one = ctx.saved_tensors
        pull = torch.addcmul(gradient, gradient, kernel_minus_one)  # gradient * kernel, (m, m)
        pull = pull + pull.T
        # sum over j of pull_ij (x_j - x_i); a row that coincides with another does not move it
        return pull @ x - pull.sum(1, keepdim=True) * x


def _cross_covariance(kernel_u: Tensor, kernel_v: Tensor, unbiased: bool) -> Tensor:
    """HSIC of two symmetric (m, m) kernel matrices with zero diagonals.

    Neither estimator notices a constant added to a kernel, HSIC_0 to all its entries and HSIC_1
    to those off the diagonal; so the Gaussian kernel minus one, whose diagonal is zero, serves
    both. Centering one matrix first gives the three terms of eq. A3 (or both H of HSIC_0)
    without their difference of large sums.
    """
    m = len(kernel_u)
    rows = kernel_v.sum(0)
    if unbiased:
        center = rows.sub(rows.sum(), alpha=0.5 / (m - 1)) / (m - 2)
        pairs = m * (m - 3)
    else:
        center = rows.sub(rows.sum(), alpha=0.5 / m) / m
        pairs = (m - 1) ** 2
    return (kernel_u * (kernel_v - center - center[:, None])).sum() / pairs
