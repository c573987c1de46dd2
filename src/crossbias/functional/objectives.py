"""Objectives on logits."""

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.functional.precision import at_least_float32


def generalized_cross_entropy(logits: Tensor, target: Tensor, *, q: float) -> Tensor:
    r"""Generalized cross-entropy (Zhang & Sabuncu, NeurIPS 2018), which favors easy samples.

    .. math:: \mathrm{GCE}(p, y) = \frac{1 - p_y^q}{q}

    Its gradient is that of cross-entropy times :math:`p_y^q`, so a network trained with it
    trusts what it learned first; LfF (NeurIPS 2020) and PGD (ICLR 2023) train their biased
    networks so. The code released with both minimizes another value with ``q`` times this
    gradient.

    Args:
        logits: ``(B, K)`` scores before the softmax.
        target: ``(B,)`` class numbers, the paper's :math:`y`.
        q: In (0, 1]: towards 0 the loss becomes cross-entropy, at 1 it is :math:`1 - p_y`.

    Returns:
        ``(B,)`` losses, in float32 or better.

    Raises:
        ValueError: ``q`` is not in (0, 1].

    >>> generalized_cross_entropy(torch.zeros(1, 4), torch.tensor([2]), q=0.5)
    tensor([1.])
    """
    if not 0 < q <= 1:
        raise ValueError(f"q of generalized cross-entropy must be in (0, 1], got {q}")
    log_p = -F.cross_entropy(at_least_float32(logits), target, reduction="none")
    return torch.expm1(q * log_p) / -q  # 1 - p^q would cancel for a small q


def negative_conditional_entropy(logits: Tensor, *, dim: int = 1) -> Tensor:
    r"""Negative conditional entropy of LNL (Kim et al., CVPR 2019), the objective of eq. 5.

    .. math:: \mathbb{E}_x \Big[ \sum_b Q(b|f(x)) \log Q(b|f(x)) \Big]

    It is 0 when the bias is predicted with certainty and smallest, :math:`-\log K`, when the
    prediction is uniform; minimizing it makes the features say nothing about the bias.

    Args:
        logits: Scores of the bias predictor :math:`h(f(x))`, such as ``(B, K)``, or
            ``(B, K, h, w)`` for one prediction per position.
        dim: The dimension of the ``K`` bias values; the mean is over all others.

    Returns:
        A scalar, in float32 or better.

    >>> negative_conditional_entropy(torch.zeros(3, 8, 14, 14)), torch.tensor(8.0).log()
    (tensor(-2.0794), tensor(2.0794))
    """
    log_q = F.log_softmax(at_least_float32(logits), dim)
    return (log_q.exp() * log_q).sum(dim).mean()
