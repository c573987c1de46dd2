"""Counts of each answer to each group: the state behind every reported number."""

import torch
from torch import Tensor

from crossbias.types import UNKNOWN


def count(
    targets: Tensor, biases: Tensor, predictions: Tensor, *, num_classes: int, num_biases: int
) -> Tensor:
    """Count the answers to each (target, bias) group.

    Counts of several batches or processes can be added: the shape does not depend on what a batch
    holds, so a group that is absent from it shifts nothing. Nothing waits for the device.

    Args:
        targets: ``(n,)`` class numbers.
        biases: ``(n,)`` bias values, ``UNKNOWN`` (-1) where not known.
        predictions: ``(n,)`` predicted class numbers.
        num_classes: Number of classes, present or not.
        num_biases: Number of bias values, present or not; 0 without a bias attribute.

    Returns:
        ``(num_classes, num_biases + 1, num_classes)`` int64, ``count[target, bias, prediction]``.
        The last bias column, whose index is also ``UNKNOWN``, holds the samples whose bias is
        not known. So the sum over all columns counts every sample.

    >>> counts = count(torch.tensor([0, 0, 1]), torch.tensor([0, -1, 1]), torch.tensor([0, 1, 1]),
    ...                num_classes=2, num_biases=2)
    >>> counts.shape, counts[1, 1].tolist(), counts[0, UNKNOWN].tolist()
    (torch.Size([2, 3, 2]), [0, 1], [0, 1])
    """
    shape = (num_classes, num_biases + 1, num_classes)
    column = biases.masked_fill(biases == UNKNOWN, num_biases)
    cell = (targets * shape[1] + column) * shape[2] + predictions
    # A value out of range must not land in another group's cell. Checking it here would wait for
    # the device; a negative cell makes the device itself raise an error.
    valid = _within(targets, 0, num_classes) & _within(predictions, 0, num_classes)
    valid &= _within(biases, UNKNOWN, num_biases)
    counts = targets.new_zeros(shape).view(-1)
    counts.scatter_add_(0, cell.masked_fill(~valid, -1), torch.ones_like(cell))
    return counts.view(shape)


def _within(numbers: Tensor, low: int, high: int) -> Tensor:
    return (numbers >= low) & (numbers < high)
