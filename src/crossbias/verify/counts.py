"""The one state behind every reported number: how often each group was given each answer."""

import torch
from torch import Tensor

from crossbias.types import UNKNOWN


def count(
    targets: Tensor, biases: Tensor, predictions: Tensor, *, num_classes: int, num_biases: int
) -> Tensor:
    """Count the answers to each (target, bias) group.

    Counts of different batches, or of different processes, add up: the shape does not depend on
    what a batch holds, so a group that is absent from it shifts nothing. Nothing waits for the
    device.

    Args:
        targets: ``(n,)`` class numbers.
        biases: ``(n,)`` bias values, ``UNKNOWN`` (-1) where not known.
        predictions: ``(n,)`` predicted class numbers.
        num_classes: Number of classes, present or not.
        num_biases: Number of bias values, present or not; 0 where there is no bias attribute.

    Returns:
        ``(num_classes, num_biases + 1, num_classes)`` int64, ``count[target, bias, prediction]``.
        The last bias column holds the samples whose bias is not known, so that the sum over all
        columns counts every sample. The index of that column is also ``UNKNOWN``.

    >>> counts = count(torch.tensor([0, 0, 1]), torch.tensor([0, -1, 1]), torch.tensor([0, 1, 1]),
    ...                num_classes=2, num_biases=2)
    >>> counts.shape, counts[1, 1].tolist(), counts[0, UNKNOWN].tolist()
    (torch.Size([2, 3, 2]), [0, 1], [0, 1])
    """
    shape = (num_classes, num_biases + 1, num_classes)
    column = biases.masked_fill(biases == UNKNOWN, num_biases)
    cell = (targets * shape[1] + column) * shape[2] + predictions
    # A value out of range must not land in another group's cell. Looking at it would wait for
    # the device; a negative cell makes the device itself refuse.
    valid = _within(targets, 0, num_classes) & _within(predictions, 0, num_classes)
    valid &= _within(biases, UNKNOWN, num_biases)
    counts = targets.new_zeros(shape).view(-1)
    counts.scatter_add_(0, cell.masked_fill(~valid, -1), torch.ones_like(cell))
    return counts.view(shape)


def _within(numbers: Tensor, low: int, high: int) -> Tensor:
    return (numbers >= low) & (numbers < high)
