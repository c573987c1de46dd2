"""AFLite: how often linear classifiers get a sample right that they were not fitted to."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

_ENTRIES = 2**25  # numbers in memory at once: 256 MiB
_NARROW = 128  # features; matrices of more take a CPU long to sum up for all classifiers at once


def ridge_classifiers(
    features: Tensor, target: Tensor, fitted: Tensor, *, classes: int, ridge: float
) -> Tensor:
    r"""Linear classifiers by ridge regression on one-hot targets, many at once in closed form.

    .. math:: \arg\min_{W, b} \sum_{i \in \text{fitted}}
        \|W \phi_i + b - e_{y_i}\|^2 + \lambda t \|W\|^2

    with :math:`t` fitted samples.

    Args:
        features: ``(n, D)`` the paper's :math:`\Phi(x)`.
        target: ``(n,)`` class numbers.
        fitted: ``(m, n)`` bool, the samples that each classifier is fitted to.
        classes: Number of classes.
        ridge: Weight of the penalty, greater than 0.

    Returns:
        ``(m, D + 1, classes)`` weights, and the intercept last, in float64.

    >>> fitted = torch.ones(1, 4, dtype=torch.bool)
    >>> features, target = torch.tensor([[-1.0], [-1.0], [1.0], [1.0]]), torch.tensor([0, 0, 1, 1])
    >>> ridge_classifiers(features, target, fitted, classes=2, ridge=1.0)[0]
    tensor([[-0.2500,  0.2500],
            [ 0.5000,  0.5000]], dtype=torch.float64)
    """
    if not fitted.any(1).all():
        raise ValueError("each classifier must be fitted to at least one sample")
    inputs, answers = features.double(), F.one_hot(target, classes).double()
    if inputs.shape[1] > _NARROW:
        return torch.stack([_solved_alone(inputs[own], answers[own], ridge) for own in fitted])
    inputs = F.pad(inputs, (0, 1), value=1.0)  # (n, D + 1)
    at_once = max(1, _ENTRIES // inputs.shape[1] ** 2)  # classifiers whose matrices memory holds
    parts = torch.split(fitted.double(), at_once)
    return torch.cat([_solved(inputs, answers, weights, ridge) for weights in parts])


def _solved_alone(inputs: Tensor, answers: Tensor, ridge: float) -> Tensor:
    """One classifier from its own samples, (D + 1, classes), by the smaller of two systems.

    With centered inputs X and answers Y of t samples, W is (X^T X + lambda t I)^-1 X^T Y, and
    X^T (X X^T + lambda t I)^-1 Y.
    """
    center, mean = inputs.mean(0), answers.mean(0)
    inputs, answers = inputs - center, answers - mean
    fewer = len(inputs) < inputs.shape[1]
    system = inputs @ inputs.T if fewer else inputs.T @ inputs
    system.diagonal().add_(ridge * len(inputs))
    if fewer:
        weight = inputs.T @ torch.linalg.solve(system, answers)
    else:
        weight = torch.linalg.solve(system, inputs.T @ answers)
    return torch.cat([weight, (mean - center @ weight)[None]])


def _solved(inputs: Tensor, answers: Tensor, weights: Tensor, ridge: float) -> Tensor:
    """The normal equations of some classifiers, ``weights`` (m, n) of zeros and ones."""
    size, classes = inputs.shape[1], answers.shape[1]
    sums = inputs.new_zeros(len(weights), size * (size + classes))
    # What a sample adds is the same for all classifiers: one product of matrices sums it up.
    for rows in _slices(len(inputs), size * (size + classes)):
        both = torch.cat([inputs[rows], answers[rows]], 1)
        sums += weights[:, rows] @ (inputs[rows, :, None] * both[:, None]).flatten(1)
    sums = sums.view(-1, size, size + classes)
    gram, moments = sums[..., :size], sums[..., size:]
    penalty = torch.full((size,), ridge, dtype=torch.float64, device=inputs.device)
    penalty[-1] = 0  # the intercept is free
    ridges = torch.diag_embed(weights.sum(1, keepdim=True) * penalty)
    solution: Tensor = torch.linalg.solve(gram + ridges, moments)
    return solution


def predictability(
    features: Tensor, target: Tensor, fitted: Tensor, *, classes: int, ridge: float
) -> Tensor:
    """Predictability score of AFLite (Le Bras et al., ICML 2020), Algorithm 1.

    Args:
        features: ``(n, D)`` the paper's Phi.
        target: ``(n,)`` class numbers.
        fitted: ``(m, n)`` bool, the samples that each classifier is fitted to. It is asked about
            the others.
        classes: Number of classes.
        ridge: Penalty of the classifiers, see ``ridge_classifiers``.

    Returns:
        ``(n,)`` float64: how many of the classifiers that a sample was held out from are right
        about it; 0 where every classifier was fitted to it.

    >>> features, target = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    >>> fitted = torch.tensor([[True, False, True, False]])
    >>> predictability(features, target, fitted, classes=2, ridge=0.01)
    tensor([0., 1., 0., 1.], dtype=torch.float64)
    """
    found = ridge_classifiers(features, target, fitted, classes=classes, ridge=ridge)
    inputs = F.pad(features.double(), (0, 1), value=1.0)
    side_by_side = found.transpose(0, 1).flatten(1)  # (D + 1, m * classes)
    right = torch.empty_like(fitted)
    for rows in _slices(len(inputs), len(fitted) * classes):
        scores = (inputs[rows] @ side_by_side).view(-1, len(fitted), classes)
        right[:, rows] = (scores.argmax(2) == target[rows, None]).T
    asked = ~fitted
    return (right & asked).sum(0) / asked.sum(0).clamp(min=1).double()


def _slices(rows: int, entries: int) -> Iterator[slice]:
    """Cuts of so many rows as memory holds, where a row takes ``entries`` numbers."""
    step = max(1, _ENTRIES // entries)
    return (slice(start, start + step) for start in range(0, rows, step))
