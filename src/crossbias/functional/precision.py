"""Statistics in float32 or better, whatever precision the network runs in."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """The tensor in float32, or in float64 if it already is.

    >>> at_least_float32(torch.ones(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def no_autocast(x: Tensor) -> torch.autocast:
    """A context in which matrix products keep their inputs' precision on the tensor's device."""
    return torch.autocast(device_type=x.device.type, enabled=False)


def unit_rows(x: Tensor) -> Tensor:
    """Each row divided by its 2-norm; a row of zeros stays zero, with a gradient of ordinary size.

    >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    norm: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / norm.masked_fill(norm == 0, 1)
