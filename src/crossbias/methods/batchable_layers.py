"""Layers whose gradients of single samples ``vmap`` can batch well."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input
from torch.overrides import TorchFunctionMode


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


def unfolded_convolution(
    input: Tensor,  # the name that callers of conv2d may use
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    precision: torch.dtype | None = None,
) -> Tensor:
    """``conv2d`` with a weight gradient that ``vmap`` can batch well.

    ``vmap`` turns the weight gradients of many samples into one convolution with as many groups,
    for which there are no fast kernels. As the product of the output's gradient and the unfolded
    input they are a batched matrix product. Convolutions in groups stay as they are, but for their
    precision. First derivatives only: a second one would take the first as a constant.

    Args:
        input: ``(B, in, H, W)``; this and what follows as of ``torch.nn.functional.conv2d``.
        weight: ``(out, in / groups, k, k)``.
        bias: ``(out,)`` or none.
        stride: Distance between two positions of the kernel.
        padding: Number of zeros around the input.
        dilation: Distance of the kernel's points.
        groups: Number of groups of channels that are convolved separately.
        precision: What convolutions and products are computed in, as under autocast; that of the
            input if not given.

    >>> images = torch.rand(1, 2, 5, 5)
    >>> unfolded_convolution(images, torch.rand(4, 2, 3, 3), padding=1).shape
    torch.Size([1, 4, 5, 5])
    """
    low = input.to(precision or input.dtype)
    if groups != 1 or isinstance(padding, str) or input.ndim != 4:
        output = F.conv2d(low, weight.to(low.dtype), None, stride, padding, dilation, groups)
    else:
        output = _Convolution.apply(low, weight, stride, padding, dilation)
    output = output.to(input.dtype)
    return output if bias is None else output + bias.view(-1, 1, 1)


class _Convolution(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(images: Tensor, weight: Tensor, *geometry: Any) -> Tensor:
        return F.conv2d(images, weight.to(images.dtype), None, *geometry)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        images, weight, *ctx.geometry = inputs
        ctx.save_for_backward(images, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        of_images = of_weight = None
        with torch.no_grad():  # or torch.func would keep the unfolded input for a second derivative
            if ctx.needs_input_grad[0]:
                of_images = conv2d_input(  # type: ignore[no-untyped-call]
                    images.shape, weight.to(images.dtype), gradient, *ctx.geometry
                )
            if ctx.needs_input_grad[1]:
                of_weight = _weight_gradient(images, weight, gradient, ctx.geometry)
        return of_images, of_weight, None, None, None


def _weight_gradient(
    images: Tensor, weight: Tensor, towards: Tensor, geometry: list[Any]
) -> Tensor:
    out, _, *kernel = weight.shape
    columns = _unfolded(images, kernel, geometry)
    products = towards.flatten(2) @ columns  # (B, out, h w) (B, h w, k k in)
    product = products[0] if len(products) == 1 else products.sum(0)  # a sum of one is a copy
    gradient = product.view(out, *kernel, -1).movedim(-1, 1)
    # Type and order at once: a copy of all gradients less.
    return gradient.to(weight.dtype, memory_format=torch.contiguous_format)


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
