"""Which sample stands beside which: partners of the same class, drawn on the device."""

import torch
from torch import Tensor


def refilled(allowed: Tensor, target: Tensor, classes: int) -> Tensor:
    """All of a class where none of it is allowed.

    Args:
        allowed: ``(m,)`` boolean.
        target: ``(m,)`` class numbers.
        classes: Number of classes.

    >>> refilled(torch.tensor([True, False, False]), torch.tensor([0, 0, 1]), classes=2)
    tensor([ True, False,  True])
    """
    some = torch.zeros(classes, dtype=torch.int64, device=target.device)
    some.index_add_(0, target, allowed.long())
    return allowed | (some == 0)[target]


def draw_partners(
    allowed: Tensor, starts: Tensor, target: Tensor, uniform: Tensor
) -> tuple[Tensor, Tensor]:
    """For each sample one allowed member of its class, each with the same probability.

    Args:
        allowed: ``(m,)`` boolean over a pool sorted by class, of at least one sample.
        starts: ``(classes + 1,)`` where each class starts in the pool, and its end.
        target: ``(B,)`` classes of the samples that need a partner.
        uniform: ``(B,)`` random numbers in [0, 1).

    Returns:
        ``(B,)`` places in the pool, and ``(B,)`` whether there was one; the place means nothing
        where there was none.

    >>> allowed, starts = torch.tensor([False, True, True, False]), torch.tensor([0, 3, 4])
    >>> target, uniform = torch.tensor([0, 0, 1]), torch.tensor([0.2, 0.9, 0.5])
    >>> place, found = draw_partners(allowed, starts, target, uniform)
    >>> found, place[found]
    (tensor([ True,  True, False]), tensor([1, 2]))
    """
    counted = allowed.long().cumsum(0)
    before = torch.cat([counted.new_zeros(1), counted])[starts]  # allowed ones before each class
    size = (before[1:] - before[:-1])[target]
    # Rounding can make the product reach the size itself.
    number = torch.minimum((uniform * size).long(), size - 1)
    place = torch.searchsorted(counted, before[:-1][target] + number + 1)
    return place.clamp(max=len(allowed) - 1), size > 0
