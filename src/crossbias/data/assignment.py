"""Bias values with exact counts, and the platform-independent random draws behind them."""

import math
from statistics import NormalDist

import torch
from torch import Tensor


def biased_values(
    targets: Tensor, *, values: int, rho: float, generator: torch.Generator
) -> Tensor:
    """Bias values that are associated with the targets, with exact counts in every class, (n,).

    The aligned bias value of class k is k: floor(n * rho + 1/2) of the n samples of a class have
    it. The rest is spread at random over the other values; their counts differ by at most one.

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
    """Bias values as the code of ReBias (ICML 2020) assigns them, with exact counts, (n,).

    The aligned bias value of class k is k: floor(n * rho) of the n samples of a class have it. The
    rest is cut into chunks of ceil(rest / confusing) for so many other values in random order; the
    last of them may get no sample.

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
    # Sorting random keys: the order depends only on the uniform numbers of torch.
    key = torch.rand(len(numbers), dtype=torch.float64, generator=generator)
    return numbers[key.argsort(stable=True)]


def normal(*shape: int, generator: torch.Generator) -> Tensor:
    """Standard normal numbers, float64, by inverting the distribution function."""
    uniform = torch.rand(*shape, dtype=torch.float64, generator=generator)
    inverse: Tensor = torch.special.ndtri(uniform.clamp_(min=2**-54))  # 0 would give minus infinity
    return inverse


def normal_between(
    means: Tensor, low: float, high: float, *, deviation: float, generator: torch.Generator
) -> Tensor:
    """Normal numbers around means, drawn again while they are outside [low, high), float64.

    Takes one uniform number for each, whatever the deviation: the distribution function is
    inverted between its values at the two limits.
    """
    below = math.nextafter(high, low)
    if not deviation:
        return means.double().clamp(low, below)
    values, which = torch.unique(means.double(), return_inverse=True)
    lower, upper = (_distribution((end - values) / deviation)[which] for end in (low, high))
    uniform = torch.rand(means.shape, dtype=torch.float64, generator=generator)
    inverse = torch.special.ndtri(lower + uniform * (upper - lower))
    drawn: Tensor = (means + deviation * inverse).clamp(low, below)  # at the ends it is rounded
    return drawn


def _distribution(values: Tensor) -> Tensor:
    """The standard normal distribution function; torch's vectorized one depends on the platform."""
    return torch.tensor([NormalDist().cdf(value) for value in values.tolist()], dtype=torch.float64)


def below(limit: int, *shape: int, generator: torch.Generator) -> Tensor:
    """Uniform whole numbers from 0 to limit - 1, int64."""
    return (torch.rand(*shape, dtype=torch.float64, generator=generator) * limit).long()
