"""Random numbers that are the same on every platform: made of uniform ones, one at a time.

torch's own normal numbers come from logarithms and cosines whose last bits depend on the
processor's vector instructions.
"""

import torch
from torch import Tensor


def normal(*shape: int, generator: torch.Generator) -> Tensor:
    """Standard normal numbers, float64, by inverting the distribution function."""
    uniform = torch.rand(*shape, dtype=torch.float64, generator=generator)
    inverse: Tensor = torch.special.ndtri(uniform.clamp_(min=2**-54))  # of 0 it is minus infinity
    return inverse


def below(limit: int, *shape: int, generator: torch.Generator) -> Tensor:
    """Whole numbers 0 .. limit - 1, each as likely, int64."""
    return (torch.rand(*shape, dtype=torch.float64, generator=generator) * limit).long()
