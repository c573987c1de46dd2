"""Logistic regression with an L1 penalty, by proximal gradient steps."""

import torch
from torch import Tensor

_STEPS = 10_000  # at most; some hundred do for features of networks
_TOLERANCE = 1e-7  # of the largest weight, by which no weight moves any more


def sparse_logistic_regression(
    features: Tensor, target: Tensor, *, classes: int, strength: float
) -> tuple[Tensor, Tensor]:
    r"""Weights of a linear classifier, most of them zero where the penalty is strong.

    .. math:: \min_{W, b} \; C \sum_i \mathrm{CE}(W x_i + b, y_i) + \|W\|_1

    with the soft-max cross-entropy; the bias b is not penalized. It is solved by FISTA (Beck and
    Teboulle, 2009) in float64, without any random number. Momentum that points uphill is dropped
    (O'Donoghue and Candes, 2015), problem by problem.

    Args:
        features: ``(..., n, D)``, best standardized; dimensions in front hold separate problems.
        target: ``(..., n)`` class numbers.
        classes: Number K of classes.
        strength: C, as in scikit-learn: the larger, the weaker the penalty.

    Returns:
        ``(..., K, D)`` weights and ``(..., K)`` biases, float64.

    >>> x, y = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    >>> weight, bias = sparse_logistic_regression(x, y, classes=2, strength=10.0)
    >>> (x.double() @ weight.T + bias).argmax(1).tolist()
    [0, 0, 1, 1]
    >>> sparse_logistic_regression(x, y, classes=2, strength=0.01)[0].abs().sum()
    tensor(0., dtype=torch.float64)
    """
    n = features.shape[-2]
    x = torch.cat([features.double(), torch.ones_like(features[..., :1]).double()], -1)
    answers = torch.nn.functional.one_hot(target, classes).double()
    # The Hessian of the soft-max cross-entropy is at most 1/2 of the Gram matrix.
    step = 2 * n / torch.linalg.matrix_norm(x, ord=2, keepdim=True).square()  # (..., 1, 1)
    threshold = step / (strength * n)
    weight = x.new_zeros(*x.shape[:-2], classes, x.shape[-1])
    ahead, momentum = weight, torch.ones_like(step)
    for _ in range(_STEPS):
        gradient = ((x @ ahead.mT).softmax(-1) - answers).mT @ x / n
        moved = ahead - step * gradient
        slopes = moved[..., :-1]
        slopes.sub_(slopes.clamp(-threshold, threshold))  # the bias keeps its whole step
        change = moved - weight
        uphill = ((ahead - moved) * change).sum((-2, -1), keepdim=True) > 0
        before = torch.where(uphill, 1.0, momentum)
        momentum = (1 + (1 + 4 * before.square()).sqrt()) / 2
        ahead, weight = moved + (before - 1) / momentum * change, moved
        largest = weight.abs().amax((-2, -1)).clamp(min=1)
        if bool((change.abs().amax((-2, -1)) <= _TOLERANCE * largest).all()):
            break
    return weight[..., :-1], weight[..., -1]
