"""Random numbers that are the same on every platform: made of uniform ones, one at a time.

torch's own normal numbers come from logarithms and cosines whose last bits depend on the
processor's vector instructions.
"""

from statistics import NormalDist

import torch
from torch import Tensor


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
