"""Layers whose gradients of single samples ``vmap`` can batch well."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from crossbias.functional.convolution import unfolded_convolution
from crossbias.functional.normalization import fixed_normalization


class BatchableLayers(TorchFunctionMode):
    """Within it ``vmap`` can batch the gradients of convolutions and batch normalization well.

    Args:
        precision: What convolutions are computed in, as under autocast; that of their input if
            not given.
    """

    def __init__(self, precision: torch.dtype | None = None) -> None:
        super().__init__()
        self.precision = precision

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace the two; call anything else."""
        if func is F.conv2d:
            return unfolded_convolution(*args, **(kwargs or {}), precision=self.precision)
        if func is F.batch_norm:
            return _normalized(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _normalized(
    input: Tensor,  # the names that callers of batch_norm may use
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training or running_mean is None or running_var is None:  # by statistics of the batch
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return fixed_normalization(input, running_mean, running_var, weight, bias, eps=eps)
