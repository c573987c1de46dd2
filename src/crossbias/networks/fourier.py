"""Convolutions with large kernels as products of Fourier coefficients, for the tensor cores.

A 7 x 7 convolution of 28 x 28 pixels takes 38,416 multiplications for each pair of an input and an
output channel. Between the coefficients of a Fourier transform it takes 1,984. The transforms,
which each channel needs once, are products with two small fixed matrices: along the columns of the
images, then along their rows.
"""

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crossbias.networks.fused import has_triton

_ALIGNED = 8  # channels; products of matrices are slow on a GPU for other numbers


class FourierConv2d(nn.Conv2d):
    """``nn.Conv2d`` with an odd kernel, without bias, padded so that maps keep their size.

    In training on CUDA in bf16 it computes the same convolution by Fourier coefficients, which
    takes less time for large kernels (``benchmarks/step_forms.py``). Its errors, below a percent,
    are then two to three times those of bf16's own convolution. Everywhere else it is
    ``nn.Conv2d``.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps of the same size."""
        if self.training and input.is_cuda and torch.is_autocast_enabled("cuda"):
            missing = (0, 0, 0, 0, 0, -self.in_channels % _ALIGNED)  # such as those of an image
            maps, weight = (F.pad(each.bfloat16(), missing) for each in (input, self.weight))
            return fourier_conv2d(maps, weight)
        return super().forward(input)


def fourier_conv2d(maps: Tensor, weight: Tensor) -> Tensor:
    """What ``F.conv2d(maps, weight, padding=kernel // 2)`` computes, by Fourier coefficients.

    Args:
        maps: ``(B, C, H, W)``.
        weight: ``(K, C, k, k)`` of an odd side k, in the type of the maps.

    Returns:
        ``(B, K, H, W)``, channels last in memory.

    >>> fourier_conv2d(torch.ones(1, 1, 3, 4), torch.ones(1, 1, 3, 3)).round()
    tensor([[[[4., 6., 6., 4.],
              [6., 9., 9., 6.],
              [4., 6., 6., 4.]]]])
    """
    pixels = maps.permute(0, 2, 3, 1).contiguous()
    found: Tensor = _FourierConvolution.apply(pixels, weight)
    return found.permute(0, 3, 1, 2)


class _FourierConvolution(torch.autograd.Function):
    """Pixels (B, H, W, C) and weights (K, C, k, k) to pixels (B, H, W, K).

    There are F coefficients, each a real and an imaginary part: (F, 2). X and Y are those of the
    input and of the output, and Y = X M where M has the coefficients of the weights.
    """

    @staticmethod
    def forward(ctx: Any, pixels: Tensor, weight: Tensor) -> Tensor:
        _, height, width, _ = pixels.shape
        place = {"dtype": pixels.dtype, "device": pixels.device}
        down, along = _transforms(height, width, weight.shape[-1], **place)
        of_kernel = _kernel_transform(height, width, weight.shape[-1], **place)
        inputs = _coefficients(down, along, pixels)  # X, (B, F, 2C)
        matrices = _matrices(of_kernel, weight)  # M, (F, 2C, 2K)
        outputs = _by_frequency(inputs, matrices)  # Y, (B, F, 2K)
        ctx.save_for_backward(inputs, matrices, down, along, of_kernel)
        ctx.kernel = weight.shape
        return _pixels(down, along, outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        inputs, matrices, down, along, of_kernel = ctx.saved_tensors
        outputs = _coefficients(down, along, gradient.contiguous())  # of Y: y = transform^T Y
        pixels = None
        if ctx.needs_input_grad[0]:
            pixels = _pixels(down, along, _by_frequency(outputs, matrices.mT))
        products = torch.bmm(inputs.permute(1, 2, 0), outputs.transpose(0, 1))  # of M, (F, 2C, 2K)
        return pixels, _weight_gradient(of_kernel, products, ctx.kernel)


def _on_gpu(tensor: Tensor) -> bool:
    """Whether the kernels of ``fourier_kernels.py`` do it, in fewer passes over the memory."""
    return tensor.is_cuda and has_triton()


def _coefficients(down: Tensor, along: Tensor, pixels: Tensor) -> Tensor:
    """(B, F, 2C) of pixels (B, H, W, C)."""
    if _on_gpu(pixels):
        from crossbias.networks import fourier_kernels

        return fourier_kernels.coefficients(pixels, down, along)
    batch, height, _, channels = pixels.shape
    columns = torch.bmm(down.expand(batch, -1, -1), pixels.view(batch, height, -1))
    parts = columns.view(batch * len(down) // 2, -1, channels)  # an image and a row frequency
    found = torch.bmm(along.expand(len(parts), -1, -1), parts)
    return found.view(batch, -1, 2 * channels)


def _pixels(down: Tensor, along: Tensor, coefficients: Tensor) -> Tensor:
    """(B, H, W, C) of coefficients (B, F, 2C): the transposed transform."""
    if _on_gpu(coefficients):
        from crossbias.networks import fourier_kernels

        return fourier_kernels.pixels_of(coefficients, down, along)
    batch, _, channels = coefficients.shape
    parts = coefficients.view(batch * len(down) // 2, len(along), channels // 2)
    columns = torch.bmm(along.mT.expand(len(parts), -1, -1), parts)
    found = torch.bmm(down.mT.expand(batch, -1, -1), columns.view(batch, len(down), -1))
    return found.view(batch, down.shape[1], -1, channels // 2)


def _by_frequency(coefficients: Tensor, matrices: Tensor) -> Tensor:
    """Each coefficient (B, F, 2C) times its matrix (F, 2C, 2K), (B, F, 2K)."""
    batch, frequencies, _ = coefficients.shape
    found = coefficients.new_empty(batch, frequencies, matrices.shape[2])
    torch.bmm(coefficients.transpose(0, 1), matrices, out=found.transpose(0, 1))
    return found


def _matrices(of_kernel: Tensor, weight: Tensor) -> Tensor:
    """The complex numbers of a kernel as real matrices ((re, im), (-im, re)), (F, 2C, 2K)."""
    if _on_gpu(weight):
        from crossbias.networks import fourier_kernels

        return fourier_kernels.matrices_of(weight, of_kernel)
    outputs, channels = weight.shape[:2]
    found = of_kernel @ weight.flatten(2).permute(2, 1, 0).flatten(1)  # (2F, CK)
    real, imaginary = found.view(-1, 2, channels, outputs).unbind(1)  # (F, C, K)
    matrices = found.new_empty(len(real), 2, channels, 2, outputs)
    matrices[:, 0, :, 0] = matrices[:, 1, :, 1] = real
    matrices[:, 0, :, 1] = imaginary
    matrices[:, 1, :, 0] = -imaginary
    return matrices.view(len(real), 2 * channels, 2 * outputs)


def _weight_gradient(of_kernel: Tensor, products: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of the weights from that of their matrices (F, 2C, 2K)."""
    if _on_gpu(products):
        from crossbias.networks import fourier_kernels

        return fourier_kernels.weight_gradient(products, of_kernel, shape)
    outputs, channels, *sides = shape
    blocks = products.view(-1, 2, channels, 2, outputs)
    real = blocks[:, 0, :, 0] + blocks[:, 1, :, 1]
    imaginary = blocks[:, 0, :, 1] - blocks[:, 1, :, 0]
    parts = torch.stack([real, imaginary], 1).view(len(of_kernel), -1)  # (2F, CK)
    return (of_kernel.mT @ parts).view(*sides, channels, outputs).permute(3, 2, 0, 1)


@functools.cache
def _transforms(
    height: int, width: int, kernel: int, *, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Pixels to coefficients: down the columns (2F', H), then along the rows (2F'', 2W).

    There are F = F' F'' coefficients. The maps are periodic with a gap of zeros as wide as the
    padding. Of each pair of conjugate coefficients there is one, times the root of two, so that
    the transposed matrices map coefficients back to pixels.
    """
    rows, columns = height + kernel // 2, width + kernel // 2
    half = rows // 2 + 1
    angles = _angles(torch.arange(half), torch.arange(height), rows)
    alone = torch.arange(half) % (rows / 2) == 0  # these are their own conjugates
    scale = (2 - alone.double()).div(rows).sqrt()[:, None, None]
    down = torch.stack([angles.cos(), -angles.sin()], 1) * scale
    angles = _angles(torch.arange(columns), torch.arange(width), columns)
    real = torch.cat([angles.cos(), angles.sin()], 1)  # of a real and an imaginary part
    imaginary = torch.cat([-angles.sin(), angles.cos()], 1)
    along = torch.stack([real, imaginary], 1) / math.sqrt(columns)
    return down.flatten(0, 1).to(device, dtype), along.flatten(0, 1).to(device, dtype)


@functools.cache
def _kernel_transform(
    height: int, width: int, kernel: int, *, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A kernel to its coefficients, (2F, kk): those of a correlation, not scaled."""
    rows, columns = height + kernel // 2, width + kernel // 2
    offset = torch.arange(kernel) - kernel // 2
    down = _angles(torch.arange(rows // 2 + 1), offset, rows)
    along = _angles(torch.arange(columns), offset, columns)
    angles = down[:, None, :, None] + along[None, :, None, :]
    parts = torch.stack([angles.cos(), angles.sin()], 2)
    return parts.reshape(-1, kernel * kernel).to(device, dtype)


def _angles(frequencies: Tensor, places: Tensor, period: int) -> Tensor:
    return 2 * math.pi / period * torch.outer(frequencies, places).double()
