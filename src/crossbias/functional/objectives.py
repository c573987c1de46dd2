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


def confusion(logits: Tensor, *, dim: int = 1) -> Tensor:
    r"""Confusion loss of BlindEye (Alvi et al., ECCV Workshops 2018), compared with in LNL.

    .. math:: -\mathbb{E}_x \Big[ \frac1K \sum_b \log Q(b|f(x)) \Big]

    The cross-entropy between a uniform distribution and the predicted one: smallest,
    :math:`\log K`, when the prediction is uniform.

    Args:
        logits: Scores of the bias predictor, such as ``(B, K)`` or ``(B, K, h, w)``.
        dim: The dimension of the ``K`` bias values; the mean is over all others.

    Returns:
        A scalar, in float32 or better.

    >>> confusion(torch.zeros(3, 8)), torch.tensor(8.0).log()
    (tensor(2.0794), tensor(2.0794))
    """
    return -F.log_softmax(at_least_float32(logits), dim).mean()


def bias_cross_entropy(logits: Tensor, bias: Tensor) -> Tensor:
    r"""Bias prediction loss of LNL (Kim et al., CVPR 2019), eq. 7, where the bias is known.

    The mean of the cross-entropy over all samples and positions with a known bias; for colors
    one mean for each channel, and their sum, as in the authors' code.

    Args:
        logits: Scores of the bias predictor :math:`h(f(x))`: ``(B, K)`` for labels,
            ``(B, K, C, h, w)`` for colors.
        bias: ``(B,)`` bias numbers or ``(B, C, h, w)`` color levels; negative where unknown,
            which takes part in nothing.

    Returns:
        A scalar, in float32 or better; a channel of which nothing is known adds 0.

    >>> bias_cross_entropy(torch.zeros(3, 4), torch.tensor([0, 3, -1])), torch.tensor(4.0).log()
    (tensor(1.3863), tensor(1.3863))
    """
    if bias.ndim == 1:
        logits, bias = logits[..., None], bias[:, None]  # one channel
    each = F.cross_entropy(at_least_float32(logits), bias.clamp(min=0), reduction="none")
    known = bias >= 0
    over = [0, *range(2, bias.ndim)]  # all but the channel
    return ((each * known).sum(over) / known.sum(over).clamp(min=1)).sum()
