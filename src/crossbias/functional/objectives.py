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


def masked_cross_entropy(logits: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    r"""Loss of RUBi (Cadene et al., NeurIPS 2019): logits under a mask made from the bias.

    .. math:: \mathrm{CE}(f \odot \sigma(c), y)

    Where the bias alone points to the right class, the mask raises that class above the others:
    the loss is small and there is little left to learn.

    Args:
        logits: ``(B, K)`` scores of the network, the paper's :math:`f`.
        mask: ``(B, K)`` scores made from the bias, :math:`c`, before the sigmoid.
        target: ``(B,)`` class numbers.

    Returns:
        A scalar, in float32 or better.

    >>> logits, closed = torch.tensor([[0.0, 5.0]]), torch.full((1, 2), -99.0)
    >>> masked_cross_entropy(logits, closed, torch.tensor([0])), torch.tensor(2.0).log()
    (tensor(0.6931), tensor(0.6931))
    """
    return F.cross_entropy(at_least_float32(logits) * at_least_float32(mask).sigmoid(), target)


def learned_mixin_terms(
    logits: Tensor, bias_logits: Tensor, scale: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    r"""The two terms of LearnedMixin+H (Clark et al., EMNLP 2019), sections 3.2.4 and 3.2.5.

    .. math:: \mathrm{CE}(\log p + s \log b, y), \qquad H(\mathrm{softmax}(s \log b))

    with the network's probabilities :math:`p`, those of a biased network :math:`b`, and how far
    the latter is trusted, :math:`s`. With :math:`s = 0` the first is plain cross-entropy.

    Args:
        logits: ``(B, K)`` scores of the network.
        bias_logits: ``(B, K)`` scores of the biased network.
        scale: ``(B,)`` not negative, the paper's :math:`g(x_i)`.
        target: ``(B,)`` class numbers.

    Returns:
        The mean cross-entropy and the mean entropy, in float32 or better.

    >>> logits, target = torch.tensor([[0.0, 0.0]]), torch.tensor([1])
    >>> learned_mixin_terms(logits, torch.tensor([[-9.0, 9.0]]), torch.zeros(1), target)
    (tensor(0.6931), tensor(0.6931))
    """
    scaled = at_least_float32(scale)[:, None] * at_least_float32(bias_logits).log_softmax(1)
    mixed = at_least_float32(logits).log_softmax(1) + scaled
    log_bias = scaled.log_softmax(1)
    entropy = -(log_bias.exp() * log_bias).sum(1).mean()
    return F.cross_entropy(mixed, target), entropy
