"""Batch normalization and ReLU on a GPU, each map read as rarely as possible (Triton).

Maps are channels last, so that they are a matrix of pixels (rows) and channels. A few hundred
programs sum over rows; one kernel combines their sums.
"""

import functools
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_PROGRAMS = 512  # at most, that sum over rows
_VALUES = 8192  # that a program has at a time


def normalized(
    maps: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    momentum: float,
    eps: float,
    relu: bool,
) -> Tensor:
    """What ``F.batch_norm`` computes in training, and ``F.relu`` of it if told so.

    Args:
        maps: ``(B, C, H, W)``, channels last in memory; C is a power of two.
        weight: ``(C,)`` in float32.
        bias: The same.
        running_mean: The same; updated in place.
        running_var: The same; updated in place.
        momentum: The share of this batch in the running statistics.
        eps: Added to the variance.
        relu: Whether negative values become zero.
    """
    found: Tensor = _Normalized.apply(
        maps, weight, bias, running_mean, running_var, momentum, eps, relu
    )
    return found


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor,
        running_mean: Tensor, running_var: Tensor, momentum: float, eps: float, relu: bool,
    ) -> Tensor:  # fmt: skip
        channels, rows = maps.shape[1], maps.numel() // maps.shape[1]
        shape = _Shape.of(rows, channels)
        partial = weight.new_empty(3, shape.programs, channels)
        found = torch.empty_like(maps)
        statistics = weight.new_empty(4, channels)  # mean, 1 / deviation, scale, shift
        _moments[shape.programs,](maps, partial, rows, **shape.constants)
        _statistics[channels // shape.together,](
            partial, statistics, weight, bias, running_mean, running_var, rows, momentum, eps,
            channels, PROGRAMS=shape.programs, TOGETHER=shape.together,
        )  # fmt: skip
        _scaled[triton.cdiv(rows, shape.rows),](
            maps, statistics, found, rows, RELU=relu, **shape.constants
        )
        ctx.save_for_backward(maps, statistics)
        ctx.relu = relu
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        maps, statistics = ctx.saved_tensors
        _, channels, height, width = maps.shape
        rows, pixels = maps.numel() // channels, height * width
        if gradient.stride()[1:] not in ((1, width * channels, channels), (1, 0, 0)):
            gradient = gradient.contiguous(memory_format=torch.channels_last)
        strides = gradient.stride(0), gradient.stride(3)  # 0 where all pixels have the same
        shape = _Shape.of(rows, channels)
        partial = statistics.new_empty(2, shape.programs, channels)
        sums = statistics.new_empty(2, channels)  # gradients of the bias and of the weight
        found = torch.empty_like(maps)
        given = (maps, gradient, statistics)
        _sums[shape.programs,](
            *given, partial, rows, pixels, *strides, RELU=ctx.relu, **shape.constants
        )
        _combined[channels // shape.together,](
            partial, sums, channels, PROGRAMS=shape.programs, TOGETHER=shape.together
        )
        _gradients[triton.cdiv(rows, shape.rows),](
            *given, sums, found, rows, pixels, *strides, RELU=ctx.relu, **shape.constants
        )
        return found, sums[1], sums[0], None, None, None, None, None


class _Shape:
    """How the work on some rows and channels is divided.

    Args:
        rows: Of a program at a time.
        programs: That sum over rows, a power of two.
        together: Channels whose sums one program combines.
        channels: Of the maps.
    """

    def __init__(self, rows: int, programs: int, together: int, channels: int) -> None:
        self.rows, self.programs, self.together = rows, programs, together
        self.constants = {"CHANNELS": channels, "ROWS": rows}

    @classmethod
    @functools.cache
    def of(cls, rows: int, channels: int) -> "_Shape":
        at_a_time = max(_VALUES // channels, 1)
        blocks = triton.next_power_of_2(triton.cdiv(rows, at_a_time))
        return cls(at_a_time, min(_PROGRAMS, blocks), min(channels, 8), channels)


@triton.jit
def _moments(maps, partial, rows, CHANNELS: tl.constexpr, ROWS: tl.constexpr):
    """Count, mean and squared deviations of the rows of each program, block after block."""
    channel, step = tl.arange(0, CHANNELS), tl.num_programs(0) * ROWS
    count = tl.zeros((CHANNELS,), tl.float32)
    mean, squares = count, count
    for first in range(tl.program_id(0) * ROWS, rows, step):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = row < rows
        values = tl.load(maps + row.to(tl.int64) * CHANNELS + channel, inside, 0.0).to(tl.float32)
        number = tl.minimum(rows - first, ROWS).to(tl.float32)
        own_mean = tl.sum(values, 0) / number
        deviations = tl.where(inside, values - own_mean[None, :], 0.0)
        total, apart = count + number, own_mean - mean
        squares += tl.sum(deviations * deviations, 0) + apart * apart * count * number / total
        mean += apart * number / total
        count = total
    place = tl.program_id(0) * CHANNELS + channel
    whole = tl.num_programs(0) * CHANNELS
    tl.store(partial + place, count)
    tl.store(partial + whole + place, mean)
    tl.store(partial + 2 * whole + place, squares)


@triton.jit
def _statistics(
    partial, statistics, weight, bias, running_mean, running_var, rows, momentum, eps,
    channels, PROGRAMS: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """Mean, 1 / deviation, scale and shift of each channel; running statistics move on."""
    channel = tl.program_id(0) * TOGETHER + tl.arange(0, TOGETHER)
    place = tl.arange(0, PROGRAMS)[:, None] * channels + channel
    whole = PROGRAMS * channels
    counts, means = tl.load(partial + place), tl.load(partial + whole + place)
    mean = tl.sum(counts * means, 0) / rows
    apart = means - mean[None, :]
    squares = tl.sum(tl.load(partial + 2 * whole + place) + counts * apart * apart, 0)
    inverse = 1 / tl.sqrt(squares / rows + eps)
    scale = tl.load(weight + channel) * inverse
    tl.store(statistics + channel, mean)
    tl.store(statistics + channels + channel, inverse)
    tl.store(statistics + 2 * channels + channel, scale)
    tl.store(statistics + 3 * channels + channel, tl.load(bias + channel) - mean * scale)
    old_mean, old_var = tl.load(running_mean + channel), tl.load(running_var + channel)
    unbiased = squares / tl.maximum(rows - 1, 1)
    tl.store(running_mean + channel, old_mean + momentum * (mean - old_mean))
    tl.store(running_var + channel, old_var + momentum * (unbiased - old_var))


@triton.jit
def _scaled(
    maps, statistics, found, rows, RELU: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr
):
    channel = tl.arange(0, CHANNELS)
    scale = tl.load(statistics + 2 * CHANNELS + channel)
    shift = tl.load(statistics + 3 * CHANNELS + channel)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    place = row.to(tl.int64) * CHANNELS + channel
    values = tl.load(maps + place, row < rows, 0.0).to(tl.float32) * scale + shift
    if RELU:
        values = tl.maximum(values, 0.0)
    tl.store(found + place, values, row < rows)


@triton.jit
def _sums(
    maps, gradient, statistics, partial, rows, pixels, image_stride, pixel_stride,
    RELU: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Sums over the rows of each program of the gradient, alone and times normalized maps."""
    channel, step = tl.arange(0, CHANNELS), tl.num_programs(0) * ROWS
    alone = tl.zeros((CHANNELS,), tl.float32)
    product = alone
    for first in range(tl.program_id(0) * ROWS, rows, step):
        row = first + tl.arange(0, ROWS)[:, None]
        slope, values = _slope_and_values(
            maps, gradient, statistics, row, rows, pixels, image_stride, pixel_stride,
            RELU, CHANNELS,
        )  # fmt: skip
        alone += tl.sum(slope, 0)
        product += tl.sum(slope * values, 0)
    place = tl.program_id(0) * CHANNELS + channel
    tl.store(partial + place, alone)
    tl.store(partial + tl.num_programs(0) * CHANNELS + place, product)


@triton.jit
def _combined(partial, sums, channels, PROGRAMS: tl.constexpr, TOGETHER: tl.constexpr):
    channel = tl.program_id(0) * TOGETHER + tl.arange(0, TOGETHER)
    place = tl.arange(0, PROGRAMS)[:, None] * channels + channel
    tl.store(sums + channel, tl.sum(tl.load(partial + place), 0))
    product = tl.load(partial + PROGRAMS * channels + place)
    tl.store(sums + channels + channel, tl.sum(product, 0))


@triton.jit
def _gradients(
    maps, gradient, statistics, sums, found, rows, pixels, image_stride, pixel_stride,
    RELU: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The gradient of the maps."""
    channel = tl.arange(0, CHANNELS)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    slope, values = _slope_and_values(
        maps, gradient, statistics, row, rows, pixels, image_stride, pixel_stride, RELU, CHANNELS
    )
    scale = tl.load(statistics + 2 * CHANNELS + channel)
    alone = tl.load(sums + channel) / rows
    product = tl.load(sums + CHANNELS + channel) / rows
    place = row.to(tl.int64) * CHANNELS + channel
    tl.store(found + place, scale * (slope - alone - values * product), row < rows)


@triton.jit
def _slope_and_values(
    maps, gradient, statistics, row, rows, pixels, image_stride, pixel_stride,
    RELU: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradient before ReLU and the normalized maps of some rows; zero outside."""
    channel = tl.arange(0, CHANNELS)
    mean, inverse = tl.load(statistics + channel), tl.load(statistics + CHANNELS + channel)
    inside = row < rows
    values = tl.load(maps + row.to(tl.int64) * CHANNELS + channel, inside, 0.0).to(tl.float32)
    image = (row // pixels).to(tl.int64)
    place = image * image_stride + (row % pixels) * pixel_stride + channel
    slope = tl.load(gradient + place, inside, 0.0).to(tl.float32)
    if RELU:
        scale = tl.load(statistics + 2 * CHANNELS + channel)
        shift = tl.load(statistics + 3 * CHANNELS + channel)
        slope = tl.where(values * scale + shift > 0, slope, 0.0)
    return slope, tl.where(inside, (values - mean) * inverse, 0.0)
