"""Gradient reversal: learn a feature's opposite."""

from typing import Any

import torch
from torch import Tensor


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

    Returns:
        The same values.

    >>> x = torch.ones(2, requires_grad=True)
    >>> gradient_reversal(3 * x, scale=0.1).sum().backward()
    >>> x.grad
    tensor([-0.3000, -0.3000])
    """
    reversed_x: Tensor = _GradientReversal.apply(x, scale)
    return reversed_x
