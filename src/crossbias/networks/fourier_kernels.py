"""Fourier transforms of many small maps on a GPU, each map read and written once (Triton).

Both matrices of ``fourier.py`` are applied to some channels of an image at a time, padded with
zeros to powers of two.
"""

import functools
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

_CHANNELS = 32  # at a time, if there are as many
_FREQUENCIES = 16  # at a time


def coefficients(pixels: Tensor, down: Tensor, along: Tensor) -> Tensor:
    """(B, F, 2C) of pixels (B, H, W, C), by the matrices of ``fourier.py``."""
    batch, _, _, channels = pixels.shape
    frequencies = len(down) * len(along) // 4
    found = pixels.new_empty(batch, frequencies, 2 * channels)
    _launch(_to_coefficients, pixels, found, down, along, channels)
    return found


def pixels_of(coefficients: Tensor, down: Tensor, along: Tensor) -> Tensor:
    """(B, H, W, C) of coefficients (B, F, 2C): the transposed transform."""
    batch, _, parts = coefficients.shape
    sides = down.shape[1], along.shape[1] // 2
    found = coefficients.new_empty(batch, *sides, parts // 2)
    _launch(_to_pixels, coefficients, found, down, along, parts // 2)
    return found


def _launch(
    kernel: Any, given: Tensor, found: Tensor, down: Tensor, along: Tensor, channels: int
) -> None:
    block = min(_CHANNELS, triton.next_power_of_2(channels))
    first, second = _padded(down, along)
    kernel[len(given), triton.cdiv(channels, block)](
        given, found, first, second, channels,
        HEIGHT=down.shape[1], WIDTH=along.shape[1] // 2,
        ROWS=len(down) // 2, COLUMNS=len(along) // 2,
        H=first.shape[1], W=second.shape[1] // 2, R=len(first) // 2, K=len(second) // 2,
        C=block, num_warps=8,
    )  # fmt: skip


def matrices_of(weight: Tensor, of_kernel: Tensor) -> Tensor:
    """(F, 2C, 2K) of weights (K, C, k, k): the real matrices ((re, im), (-im, re))."""
    outputs, channels, *_ = weight.shape
    frequencies, block = len(of_kernel) // 2, _block(channels * outputs)
    found = weight.new_empty(frequencies, 2 * channels, 2 * outputs)
    _to_matrices[triton.cdiv(frequencies, _FREQUENCIES), triton.cdiv(channels * outputs, block)](
        weight.contiguous(), found, _padded_kernel(of_kernel), frequencies, channels, outputs,
        PLACES=of_kernel.shape[1], S=_padded_side(of_kernel.shape[1]),
        N=_FREQUENCIES, M=block, num_warps=4,
    )  # fmt: skip
    return found


def weight_gradient(products: Tensor, of_kernel: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of weights (K, C, k, k) from that of their matrices (F, 2C, 2K)."""
    outputs, channels, *_ = shape
    block = _block(channels * outputs)
    found = products.new_empty(shape)
    _to_weights[triton.cdiv(channels * outputs, block),](
        products, found, _padded_kernel(of_kernel), len(products), channels, outputs,
        PLACES=of_kernel.shape[1], S=_padded_side(of_kernel.shape[1]),
        N=_FREQUENCIES, M=block, num_warps=4,
    )  # fmt: skip
    return found


def _block(pairs: int) -> int:
    """Pairs of channels at a time: few if there are few, so that the whole GPU has work."""
    return 64 if pairs >= 8192 else 16


def _padded_side(side: int) -> int:
    """A power of two that a product of matrices in a kernel takes."""
    return max(int(triton.next_power_of_2(side)), 16)


@functools.cache
def _padded_kernel(of_kernel: Tensor) -> Tensor:
    """(2F, kk) with columns of zeros up to a power of two, and rows for whole blocks."""
    rows, places = of_kernel.shape
    padded = -rows % (2 * _FREQUENCIES), _padded_side(places) - places
    return F.pad(of_kernel, (0, padded[1], 0, padded[0]))


@functools.cache
def _padded(down: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
    """The matrices (2R, H) and (2K, 2W), each side of an image and of its spectrum padded."""
    rows, columns = len(down) // 2, len(along) // 2
    height, width = down.shape[1], along.shape[1] // 2
    r, k, h, w = map(_padded_side, (rows, columns, height, width))
    first, second = down.new_zeros(r, 2, h), along.new_zeros(k, 2, 2, w)
    first[:rows, :, :height] = down.view(rows, 2, height)
    second[:columns, :, :, :width] = along.view(columns, 2, 2, width)
    return first.view(2 * r, h), second.view(2 * k, 2 * w)


@triton.jit
def _to_coefficients(
    pixels, found, down, along, channels,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr, R: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0).to(tl.int64)
    places, inside = _places_of_pixels(channels, HEIGHT, WIDTH, H, W, C)
    maps = tl.load(pixels + image * HEIGHT * WIDTH * channels + places, inside, 0.0)  # (H, W C)
    columns = tl.dot(_matrix(down, 2 * R, H), maps).to(maps.dtype)  # (R 2, W C)
    parts = tl.permute(tl.reshape(columns, (R, 2, W, C)), (1, 2, 0, 3))
    spectrum = tl.dot(_matrix(along, 2 * K, 2 * W), tl.reshape(parts, (2 * W, R * C)))  # (K 2, R C)
    places, inside = _places_of_coefficients(channels, ROWS, COLUMNS, R, K, C)
    start = image * ROWS * COLUMNS * 2 * channels
    tl.store(found + start + places, spectrum.to(maps.dtype), inside)


@triton.jit
def _to_pixels(
    coefficients, found, down, along, channels,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr, R: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0).to(tl.int64)
    places, inside = _places_of_coefficients(channels, ROWS, COLUMNS, R, K, C)
    start = image * ROWS * COLUMNS * 2 * channels
    spectrum = tl.load(coefficients + start + places, inside, 0.0)  # (K 2, R C)
    parts = tl.dot(tl.trans(_matrix(along, 2 * K, 2 * W)), spectrum).to(spectrum.dtype)
    columns = tl.permute(tl.reshape(parts, (2, W, R, C)), (2, 0, 1, 3))
    columns = tl.reshape(columns, (2 * R, W * C))
    maps = tl.dot(tl.trans(_matrix(down, 2 * R, H)), columns)  # (H, W C)
    places, inside = _places_of_pixels(channels, HEIGHT, WIDTH, H, W, C)
    tl.store(found + image * HEIGHT * WIDTH * channels + places, maps.to(spectrum.dtype), inside)


@triton.jit
def _matrix(start, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.load(start + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])


@triton.jit
def _places_of_pixels(
    channels, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Of the channels of this program, (H, W C)."""
    h, across = tl.arange(0, H)[:, None], tl.arange(0, W * C)[None, :]
    w, channel = across // C, tl.program_id(1) * C + across % C
    inside = (h < HEIGHT) & (w < WIDTH) & (channel < channels)
    return (h * WIDTH + w) * channels + channel, inside


@triton.jit
def _places_of_coefficients(
    channels, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    R: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Of the channels of this program, (K 2, R C); in memory it is (R, K, 2, C)."""
    down, across = tl.arange(0, 2 * K)[:, None], tl.arange(0, R * C)[None, :]
    k, part, r, channel = down // 2, down % 2, across // C, tl.program_id(1) * C + across % C
    inside = (r < ROWS) & (k < COLUMNS) & (channel < channels)
    return ((r * COLUMNS + k) * 2 + part) * channels + channel, inside


@triton.jit
def _to_matrices(
    weight, found, of_kernel, frequencies, channels, outputs,
    PLACES: tl.constexpr, S: tl.constexpr, N: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    places, inside = _places_of_weights(channels, outputs, tl.program_id(1) * M, PLACES, S, M)
    kernels = tl.load(weight + places, inside, 0.0)  # (S, M)
    first = tl.program_id(0) * N
    real, imaginary = _parts_of(of_kernel, first, S, N)  # (N, S) each
    real, imaginary = tl.dot(real, kernels), tl.dot(imaginary, kernels)  # (N, M)
    place, inside = _places_of_matrices(
        frequencies, channels, outputs, first, tl.program_id(1) * M, N, M
    )
    low = 2 * channels * outputs  # from the upper to the lower half of a matrix
    kind = kernels.dtype
    tl.store(found + place, real.to(kind), inside)
    tl.store(found + place + outputs, imaginary.to(kind), inside)
    tl.store(found + place + low, -imaginary.to(kind), inside)
    tl.store(found + place + low + outputs, real.to(kind), inside)


@triton.jit
def _to_weights(
    products, found, of_kernel, frequencies, channels, outputs,
    PLACES: tl.constexpr, S: tl.constexpr, N: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((S, M), tl.float32)
    low = 2 * channels * outputs
    for first in range(0, frequencies, N):
        place, inside = _places_of_matrices(
            frequencies, channels, outputs, first, tl.program_id(0) * M, N, M
        )
        real = tl.load(products + place, inside, 0.0)
        kind = real.dtype
        real = real.to(tl.float32) + tl.load(products + place + low + outputs, inside, 0.0)
        imaginary = tl.load(products + place + outputs, inside, 0.0).to(tl.float32)
        imaginary -= tl.load(products + place + low, inside, 0.0)
        of_real, of_imaginary = _parts_of(of_kernel, first, S, N)
        total = tl.dot(tl.trans(of_real), real.to(kind), total)
        total = tl.dot(tl.trans(of_imaginary), imaginary.to(kind), total)
    places, inside = _places_of_weights(channels, outputs, tl.program_id(0) * M, PLACES, S, M)
    tl.store(found + places, total.to(found.dtype.element_ty), inside)


@triton.jit
def _parts_of(of_kernel, first, S: tl.constexpr, N: tl.constexpr):
    """The real and the imaginary rows of some frequencies, (N, S) each."""
    place = 2 * (first + tl.arange(0, N)[:, None]) * S + tl.arange(0, S)[None, :]
    return tl.load(of_kernel + place), tl.load(of_kernel + place + S)


@triton.jit
def _places_of_weights(
    channels, outputs, first, PLACES: tl.constexpr, S: tl.constexpr, M: tl.constexpr
):
    """Of M pairs of an input and an output channel, (S, M); in memory it is (K, C, kk)."""
    pair = first + tl.arange(0, M)[None, :]
    channel, output, s = pair // outputs, pair % outputs, tl.arange(0, S)[:, None]
    return (output * channels + channel) * PLACES + s, (s < PLACES) & (channel < channels)


@triton.jit
def _places_of_matrices(
    frequencies, channels, outputs, first, first_pair, N: tl.constexpr, M: tl.constexpr
):
    """The upper left part of matrices (F, 2, C, 2, K), (N, M)."""
    frequency = first + tl.arange(0, N)[:, None]
    pair = first_pair + tl.arange(0, M)[None, :]
    channel, output = pair // outputs, pair % outputs
    place = (frequency * 2 * channels + channel) * 2 * outputs + output
    return place, (frequency < frequencies) & (channel < channels)
