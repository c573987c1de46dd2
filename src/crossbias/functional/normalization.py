"""Batch normalization by fixed statistics."""

import torch
from torch import Tensor


def fixed_normalization(
    inputs: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Batch normalization in evaluation mode as what it is, a product and a sum for each channel.

    ``vmap`` batches these two at once, while it takes the derivative of ``batch_norm`` apart into
    many operations on all values. The gradient by the weight is a difference of two sums,
    which loses digits where a mean is far larger than the deviation.

    Args:
        inputs: ``(B, D, ...)``.
        mean: ``(D,)`` and all that follows as of ``torch.nn.functional.batch_norm``.
        variance: ``(D,)``.
        weight: ``(D,)`` or none.
        bias: ``(D,)`` or none.
        eps: Added to the variance.

    >>> fixed_normalization(torch.tensor([[5.0]]), torch.tensor([1.0]), torch.tensor([4.0]), eps=0)
    tensor([[2.]])
    """
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = (-1, *[1] * (inputs.ndim - 2))
    return torch.addcmul(shift.view(shape), inputs, scale.view(shape)).to(inputs.dtype)
