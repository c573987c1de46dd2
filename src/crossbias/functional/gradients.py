"""Per-sample gradients: their norm, how typical their direction is, and gradients reversed."""

from typing import Any

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast, unit_rows


def head_gradient_norm(
    logits: Tensor, target: Tensor, features: Tensor, *, bias: bool = True
) -> Tensor:
    r"""Norm of each sample's last-layer gradient, the score of PGD (Ahn et al., ICLR 2023).

    The gradient of one sample's cross-entropy with respect to the weight of a linear head is the
    outer product :math:`(p - e_y) h^T`, and with respect to its bias :math:`p - e_y`, so

    .. math:: \|\nabla\|_2 = \|p - e_y\|_2 \sqrt{\|h\|_2^2 + 1}

    without the 1 if the bias is left out, as in the code released with the paper. The ICLR 2022
    submission of the same work calls it the magnitude score and takes its inverse (eq. 1).

    Args:
        logits: ``(B, K)`` outputs of the head, for at least two classes.
        target: ``(B,)`` class numbers :math:`y`.
        features: ``(B, D)`` inputs :math:`h` of the head.
        bias: Whether the head's bias counts as a parameter.

    Returns:
        ``(B,)`` norms, in float32 or better.

    >>> logits, features = torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 2.0, 4.0]])
    >>> head_gradient_norm(logits, torch.tensor([1]), features)
    tensor([3.5355])
    """
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise ValueError(f"logits must be (B, K) for K >= 2 classes, got {tuple(logits.shape)}")
    norm: Tensor = torch.linalg.vector_norm(at_least_float32(features), dim=1)
    if bias:
        norm = torch.hypot(norm, torch.ones_like(norm))
    return _residual_norm(at_least_float32(logits), target) * norm


def _residual_norm(logits: Tensor, target: Tensor) -> Tensor:
    """The 2-norm of softmax minus one-hot, with full relative accuracy however small.

    For a well-fitted sample p_y rounds to 1 and the squares of the other p_k to 0. Written as
    (1 - p_y) * sqrt(1 + sum of the squared shares of the others in 1 - p_y), and 1 - p_y as a
    sigmoid of the margin, nothing is subtracted from 1 and nothing small is squared.
    """
    column = target[:, None]
    others = logits.scatter(1, column, -torch.inf)
    margin = logits.gather(1, column)[:, 0] - others.logsumexp(1)
    shares = others.softmax(1)
    return torch.sigmoid(-margin) * (1 + shares.square().sum(1)).sqrt()


def vmf_log_density(directions: Tensor) -> Tensor:
    r"""Log-density of each row under a von Mises-Fisher fit, from PGD's ICLR 2022 submission.

    The rows are scaled to unit length, :math:`v_i`, and the two parameters of the distribution
    :math:`f_d(v; u, \kappa) = C_d(\kappa) \exp(\kappa u^T v)` are estimated from them with the
    approximation of Banerjee et al. (JMLR 2005), as in section 4.1 and appendix G:

    .. math:: u = \frac{\sum_i v_i}{\|\sum_i v_i\|}, \qquad r = \frac{\|\sum_i v_i\|}{n},
        \qquad \kappa \approx \frac{r (d - r^2)}{1 - r^2}

    The normalizer :math:`C_d(\kappa)`, which is the same for all rows, is dropped: the result
    stays finite where the density itself would overflow.

    Args:
        directions: ``(n, d)`` per-sample gradients :math:`\nabla\theta_i`, of any length. A row
            of zeros has no direction: it is left out of the estimates and gets the value 0, that
            of a direction at a right angle to the mean.

    Returns:
        ``(n,)`` values :math:`\kappa u^T v_i`, in float32 or better. :math:`1 - r^2` is taken to
        be at least the square root of the data type's machine epsilon, so identical rows, or a
        single one, give a large finite number. :math:`u^T v_i` is computed as
        :math:`1 - \|v_i - u\|^2 / 2`, which is exact where it is 1: a large :math:`\kappa` does
        not turn rounding errors into differences between rows.

    >>> vmf_log_density(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    tensor([1.5000, 1.5000, 0.0000])
    """
    with no_autocast(directions):
        x = at_least_float32(directions)
        # the gradient of a well-fitted sample is so small that its square may vanish
        peak = x.detach().abs().amax(1, keepdim=True)
        unit = unit_rows(x / peak.masked_fill(peak == 0, 1))
        rows = peak.count_nonzero().clamp(min=1)  # n
        dimensions = unit.shape[1]  # d
        resultant = unit.sum(0)
        length: Tensor = torch.linalg.vector_norm(resultant)
        mean_direction = resultant / length.masked_fill(length == 0, 1)  # u
        r = length / rows
        spread = (1 - r**2).clamp(min=torch.finfo(unit.dtype).eps ** 0.5)
        kappa = r * (dimensions - r**2) / spread
        # u.v of two unit vectors; a row of zeros has no direction, and none is typical of it
        cosine = 1 - (unit - mean_direction).square().sum(1) / 2
        return kappa * cosine * (peak[:, 0] != 0)


class _GradientReversal(torch.autograd.Function):
    generate_vmap_rule = True  # usable inside torch.func.vmap

    @staticmethod
    def forward(x: Tensor, scale: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        _, ctx.scale = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * -ctx.scale, None


def gradient_reversal(x: Tensor, *, scale: float) -> Tensor:
    r"""Gradient reversal layer (Ganin & Lempitsky, ICML 2015), as used by LNL (CVPR 2019).

    The identity, whose gradient is multiplied by :math:`-\text{scale}`: what comes after it
    minimizes its loss while what comes before it maximizes the same loss.

    Args:
        x: Features :math:`f(x)` on their way into the bias predictor.
        scale: How strongly the gradient is reversed, :math:`\mu` of LNL's eq. 9; 0.1 in the
            authors' code.

    >>> x = torch.ones(2, requires_grad=True)
    >>> gradient_reversal(3 * x, scale=0.1).sum().backward()
    >>> x.grad
    tensor([-0.3000, -0.3000])
    """
    reversed_x: Tensor = _GradientReversal.apply(x, scale)
    return reversed_x
