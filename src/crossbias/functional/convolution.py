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
    input they are a batched matrix product. Convolutions in groups stay as they are, but for their
    precision. First derivatives only: a second one would take the first as a constant.

    Args:
        precision: What the convolutions and products are computed in, as under autocast; that of
            their input if not given.
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
        """Replace ``conv2d``; call anything else."""
        if func is not F.conv2d:
            return func(*args, **(kwargs or {}))
        return _convolved(self.precision, *args, **(kwargs or {}))


def _convolved(
    precision: torch.dtype | None,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    precision = precision or inputs.dtype
    if groups != 1 or isinstance(padding, str) or inputs.ndim != 4:
        low = inputs.to(precision), weight.to(precision)
        output = F.conv2d(*low, None, stride, padding, dilation, groups).to(inputs.dtype)
    else:
        output = _Convolution.apply(inputs, weight, precision, stride, padding, dilation)
    return output if bias is None else output + bias.view(-1, 1, 1)


class _Convolution(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(inputs: Tensor, weight: Tensor, precision: torch.dtype, *geometry: Any) -> Tensor:
        output = F.conv2d(inputs.to(precision), weight.to(precision), None, *geometry)
        return output.to(inputs.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        images, weight, ctx.precision, *ctx.geometry = inputs
        ctx.save_for_backward(images, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        with torch.no_grad():  # or torch.func would keep the unfolded input for a second derivative
            towards = gradient.to(ctx.precision)
            of_images = of_weight = None
            if ctx.needs_input_grad[0]:
                of_images = _input_gradient(images, weight, towards, ctx.geometry)
            if ctx.needs_input_grad[1]:
                of_weight = _weight_gradient(images, weight, towards, ctx.geometry)
        return of_images, of_weight, None, None, None, None


def _input_gradient(images: Tensor, weight: Tensor, towards: Tensor, geometry: list[Any]) -> Tensor:
    gradient: Tensor = conv2d_input(  # type: ignore[no-untyped-call]
        images.shape, weight.to(towards.dtype), towards, *geometry
    )
    return gradient.to(images.dtype)


def _weight_gradient(
    images: Tensor, weight: Tensor, towards: Tensor, geometry: list[Any]
) -> Tensor:
    out, _, *kernel = weight.shape
    columns = _unfolded(images.to(towards.dtype), kernel, geometry)
    products = towards.flatten(2) @ columns  # (B, out, h w) (B, h w, k k in)
    gradient = products.sum(0).view(out, *kernel, -1).movedim(-1, 1)
    return gradient.to(weight.dtype)


def _unfolded(images: Tensor, kernel: list[int], geometry: list[Any]) -> Tensor:
    """What each position of the kernel sees, ``(B, h w, k k in)``.

    The channels come last, so that of images in that memory format whole pixels are copied.
    """
    (down, right), (above, left), (by_row, by_column) = (_pair(each) for each in geometry)
    rows, columns = (kernel[0] - 1) * by_row + 1, (kernel[1] - 1) * by_column + 1
    padded = F.pad(images, (left, left, above, above))
    windows = padded.unfold(2, rows, down).unfold(3, columns, right)  # (B, in, h, w, rows, columns)
    seen = windows[..., ::by_row, ::by_column].movedim(1, -1)
    return seen.flatten(3).flatten(1, 2)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])
