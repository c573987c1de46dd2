"""Bias values with exact counts, and the platform-independent random draws behind them."""

import math
from statistics import NormalDist

import torch
from torch import Tensor


def biased_values(
    targets: Tensor, *, values: int, rho: float, generator: torch.Generator
) -> Tensor:
    """Bias values that go along with the targets, with exact counts in every class.

    Args:
        targets: ``(n,)`` classes, each of them the number of its own bias value.
        values: Number of bias values, two or more.
        rho: Of the n samples of a class, floor(n * rho + 1/2) have the class's own value; the
            others have each of the other values equally often, up to one.
        generator: Decides which samples conflict, and which values get the odd ones.

    Returns:
        ``(n,)`` int64.

    >>> targets = torch.tensor([0] * 8 + [1] * 5)
    >>> biases = biased_values(targets, values=3, rho=0.5, generator=torch.Generator())
    >>> torch.bincount(biases[targets == 0], minlength=3).tolist()
    [4, 2, 2]
    >>> torch.bincount(biases[targets == 1], minlength=3).tolist()
    [1, 3, 1]
    """
    biases = torch.empty_like(targets)
    for target in sorted(set(targets.tolist())):
        rows = (targets == target).nonzero().squeeze(1)
        aligned = math.floor(len(rows) * rho + 0.5)
        everything = torch.arange(values)
        others = shuffled(everything[everything != target], generator)
        conflicting = others[torch.arange(len(rows) - aligned) % len(others)]
        biases[rows] = shuffled(torch.cat((torch.full((aligned,), target), conflicting)), generator)
    return biases


def chunked_values(
    targets: Tensor, *, values: int, rho: float, confusing: int, generator: torch.Generator
) -> Tensor:
    """Bias values as ReBias (ICML 2020) gives them out in its code, with exact counts.

    Args:
        targets: ``(n,)`` classes, each of them the number of its own bias value.
        values: Number of bias values.
        rho: Of the n samples of a class, floor(n * rho) have the class's own value.
        confusing: Number of other values that the rest is cut into. Chunks have the size of the
            rest divided by this number, rounded up, so that the last values may get nothing.
        generator: Decides which samples conflict, and the order of the other values.

    Returns:
        ``(n,)`` int64.

    >>> targets = torch.zeros(100, dtype=torch.int64)
    >>> options = {"values": 10, "rho": 0.8, "confusing": 9, "generator": torch.Generator()}
    >>> torch.bincount(chunked_values(targets, **options)).tolist()
    [80, 3, 3, 3, 3, 0, 3, 3, 0, 2]
    """
    biases = torch.empty_like(targets)
    for target in sorted(set(targets.tolist())):
        rows = (targets == target).nonzero().squeeze(1)
        aligned = math.floor(round(len(rows) * rho, 6))  # 100 * .29 is 28.999... in binary
        rest = len(rows) - aligned
        everything = torch.arange(values)
        others = shuffled(everything[everything != target], generator)[:confusing]
        conflicting = others.repeat_interleave(math.ceil(rest / confusing))[:rest]
        biases[rows] = shuffled(torch.cat((torch.full((aligned,), target), conflicting)), generator)
    return biases


def shuffled(numbers: Tensor, generator: torch.Generator) -> Tensor:
    """The numbers in random order."""
    # By sorting, so that the order depends on nothing of torch but its uniform numbers.
    key = torch.rand(len(numbers), dtype=torch.float64, generator=generator)
    return numbers[key.argsort(stable=True)]


def normal(*shape: int, generator: torch.Generator) -> Tensor:
    """Standard normal numbers, float64, by inverting the distribution function."""
    uniform = torch.rand(*shape, dtype=torch.float64, generator=generator)
    inverse: Tensor = torch.special.ndtri(uniform.clamp_(min=2**-54))  # of 0 it is minus infinity
    return inverse


def normal_in_unit(means: Tensor, *, deviation: float, generator: torch.Generator) -> Tensor:
    """Normal numbers around means in [0, 1], drawn again while they lie outside of it, float64.

    Takes one uniform number for each, whatever the deviation: the distribution function is
    inverted between its values at 0 and at 1.
    """
    scale = max(deviation, 1e-12)  # without a deviation every number is its mean
    values, which = torch.unique(means.double(), return_inverse=True)
    low, high = (_distribution((end - values) / scale)[which] for end in (0, 1))
    uniform = torch.rand(means.shape, dtype=torch.float64, generator=generator)
    inverse = torch.special.ndtri(low + uniform * (high - low))
    drawn: Tensor = (means + scale * inverse).clamp(0, 1)  # at the ends it is rounded, or infinite
    return drawn


def _distribution(values: Tensor) -> Tensor:
    """Of standard normal numbers; one value at a time, since torch's own is by vectors."""
    return torch.tensor([NormalDist().cdf(value) for value in values.tolist()], dtype=torch.float64)


def below(limit: int, *shape: int, generator: torch.Generator) -> Tensor:
    """Whole numbers 0 .. limit - 1, each as likely, int64."""
    return (torch.rand(*shape, dtype=torch.float64, generator=generator) * limit).long()
