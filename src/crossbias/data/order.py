"""The order of samples in an epoch, and sampling weights, as pure functions."""

from typing import Literal

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.seeds import generator_for

Sampling = Literal["uniform", "class-balanced", "group-balanced"]
"""How often samples are drawn: each once, every class equally often, or every group."""


def epoch_order(
    n: int, epoch: int, seed: int, weights: Tensor | None = None, *, size: int | None = None
) -> Tensor:
    """Positions of the samples of one epoch, the same on every process and platform.

    The weights (n,) say how often each sample is taken: a boolean mask takes every chosen sample
    once, and whole numbers take each sample so many times. Floating-point numbers draw ``n``
    samples with replacement, in proportion to their weight. With a ``size``, the order is
    repeated, shuffled anew, or cut to that length.

    >>> epoch_order(5, epoch=0, seed=0).sort().values.tolist()
    [0, 1, 2, 3, 4]
    >>> epoch_order(4, epoch=0, seed=0, weights=torch.tensor([0.0, 0.0, 1.0, 0.0])).tolist()
    [2, 2, 2, 2]
    >>> epoch_order(3, epoch=0, seed=0, weights=torch.tensor([0, 1, 3])).sort().values.tolist()
    [1, 2, 2, 2]
    """
    generator = generator_for(seed, "order", epoch)
    weights = torch.ones(n, dtype=torch.int64) if weights is None else weights.cpu()
    if weights.shape != (n,):
        raise CrossbiasError(f"{n} samples need as many weights, got {tuple(weights.shape)}")
    if weights.is_floating_point():
        return _draws(size or n, weights.double(), generator)
    if bool((weights < 0).any()):
        raise CrossbiasError("a sample cannot be taken a negative number of times")
    taken = torch.arange(n).repeat_interleave(weights.long())
    if not len(taken):
        raise CrossbiasError("sampling weights are all zero: there is nothing to take")
    size = len(taken) if size is None else size
    rounds = [
        taken[torch.randperm(len(taken), generator=generator)] for _ in range(0, size, len(taken))
    ]
    return torch.cat(rounds)[:size]


def _draws(n: int, weights: Tensor, generator: torch.Generator) -> Tensor:
    """Invert the cumulative weights; torch.multinomial stops at 2^24 categories."""
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()):
        raise CrossbiasError("sampling weights must be finite and not negative")
    cumulative = weights.cumsum(0)
    total = cumulative[-1]
    if not total > 0:
        raise CrossbiasError("sampling weights are all zero: there is nothing to draw")
    draws = torch.rand(n, generator=generator, dtype=torch.float64) * total
    below_total = torch.nextafter(total, total.new_zeros(()))  # rounding must not reach the end
    return torch.searchsorted(cumulative, draws.clamp(max=below_total), right=True)


def batches(order: Tensor, batch_size: int, minimum: int = 1) -> list[Tensor]:
    """Cut an order into batches; a rest smaller than ``minimum`` joins the batch before it.

    >>> [len(batch) for batch in batches(torch.arange(9), batch_size=4, minimum=2)]
    [4, 5]
    """
    cut = list(order.split(batch_size))  # type: ignore[no-untyped-call]
    if len(cut) > 1 and len(cut[-1]) < minimum:
        rest = cut.pop()
        cut[-1] = torch.cat([cut[-1], rest])
    return cut


def balanced_weights(data: BiasedDataset, sampling: Sampling) -> Tensor | None:
    """Sampling weights under which every class, or every (target, bias) group, is equally likely.

    The weights (full_size,) are one over the size of the sample's class or group, and zero for
    rows that are not in the data; None for ``uniform``. Samples of one class whose bias is unknown
    count as a group of their own.

    >>> data = BiasedDataset(
    ...     inputs=torch.zeros(4, 2), targets=torch.tensor([0, 0, 0, 1]),
    ...     attributes={"color": torch.tensor([0, 0, 1, 1])}, bias="color")
    >>> balanced_weights(data, "group-balanced")
    tensor([0.5000, 0.5000, 1.0000, 1.0000])
    """
    if sampling == "uniform":
        return None
    group = data.targets
    if sampling == "group-balanced":
        group = data.targets * (data.num_biases + 1) + data.biases + 1  # unknown is -1
    weights = torch.zeros(data.full_size)
    weights[data.index] = 1 / torch.bincount(group)[group]
    return weights
