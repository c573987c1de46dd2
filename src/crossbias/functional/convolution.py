"""Convolutions whose weight gradients of single samples are matrix products."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input
from torch.overrides import TorchFunctionMode


class UnfoldedWeightGradients(TorchFunctionMode):
    """Within it two-dimensional convolutions have a weight gradient that ``vmap`` can batch well.

    ``vmap`` turns the weight gradients of many samples into one convolution with as many groups,
    for which there are no fast kernels. As the product of the output's gradient and the unfolded
    input they are a batched matrix product. Convolutions in groups stay as they are.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace ``conv2d``; call anything else."""
        if func is not F.conv2d:
            return func(*args, **(kwargs or {}))
        return _convolved(*args, **(kwargs or {}))


def _convolved(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    if groups != 1 or isinstance(padding, str):
        return F.conv2d(inputs, weight, bias, stride, padding, dilation, groups)
    output: Tensor = _Convolution.apply(inputs, weight, stride, padding, dilation)
    return output if bias is None else output + bias.view(-1, 1, 1)


class _Convolution(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(inputs: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any) -> Tensor:
        return F.conv2d(inputs, weight, None, stride, padding, dilation)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        images, weight, *ctx.settings = inputs
        ctx.save_for_backward(images, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        stride, padding, dilation = ctx.settings
        of_images = conv2d_input(  # type: ignore[no-untyped-call]
            images.shape, weight, gradient, stride, padding, dilation
        )
        columns = F.unfold(images, weight.shape[2:], dilation, padding, stride)  # (B, C k k, h w)
        of_weight = (gradient.flatten(2) @ columns.transpose(1, 2)).sum(0).view_as(weight)
        return of_images, of_weight, None, None, None
