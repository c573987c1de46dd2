"""How typical a direction is among others."""

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32, no_autocast, unit_rows


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
