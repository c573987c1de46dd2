"""Per-sample gradients of a linear head, in closed form."""

import torch
from torch import Tensor

from crossbias.functional.precision import at_least_float32


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

    Raises:
        ValueError: There are fewer than two classes.

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
