"""The kernels of a GPU, each against the plain layer that it stands for, in Triton's interpreter.

``test_kernels.py`` runs this file in a process of its own: the interpreter must be switched on
before Triton is imported.
"""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.networks import fourier, fourier_kernels
from crossbias.networks.fused import _normalized

SHAPES = [(1, 8, 8, 28, 28, 7), (2, 40, 5, 9, 8, 5), (1, 96, 96, 4, 5, 3)]
"""Images, channels, outputs, height, width and side of the kernel; blocks divide some evenly."""


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def assert_equal(found: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    """Equal up to the rounding of sums, in the norm of all values."""
    assert found.shape == expected.shape
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize(("images", "channels", "outputs", "height", "width", "side"), SHAPES)
def test_transforms_and_matrices(images, channels, outputs, height, width, side):
    place = {"dtype": torch.float32, "device": torch.device("cpu")}
    down, along = fourier._transforms(height, width, side, **place)
    of_kernel = fourier._kernel_transform(height, width, side, **place)
    pixels, weight = drawn(images, height, width, channels), drawn(outputs, channels, side, side)

    spectrum = fourier._coefficients(down, along, pixels)
    assert_equal(fourier_kernels.coefficients(pixels, down, along), spectrum)
    back = fourier._pixels(down, along, spectrum)
    assert_equal(fourier_kernels.pixels_of(spectrum, down, along), back)

    matrices = fourier._matrices(of_kernel, weight)
    assert_equal(fourier_kernels.matrices_of(weight, of_kernel), matrices)
    products = drawn(*matrices.shape)
    gradient = fourier._weight_gradient(of_kernel, products, weight.shape)
    found = fourier_kernels.weight_gradient(products, of_kernel, weight.shape)
    assert_equal(found, gradient)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("pooled", [True, False], ids=["pooled", "maps"])
@pytest.mark.parametrize("shape", [(3, 16, 7, 5), (24, 128, 9, 9), (2, 1, 3, 1)])
def test_normalization(shape, pooled, relu):
    """A batch, and the gradient of maps or of their mean, which has strides of zero."""
    layer = nn.BatchNorm2d(shape[1], momentum=0.3)
    nn.init.uniform_(layer.weight, 0.5, 2, generator=torch.Generator().manual_seed(0))
    nn.init.normal_(layer.bias, generator=torch.Generator().manual_seed(1))
    plain, given = copy.deepcopy(layer).double(), 3 + drawn(*shape)
    found = values_and_gradients(
        layer, lambda maps: _normalized(layer, maps, relu=relu), given, pooled
    )
    expected = values_and_gradients(
        plain, lambda maps: F.relu(plain(maps)) if relu else plain(maps), given.double(), pooled
    )
    for one, other in zip(found, expected, strict=True):
        # Gradients of maps cancel by channel, so that their own size says nothing of the rounding.
        size = max(float(other.abs().max()), 1)
        torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=1e-5 * size)


def values_and_gradients(
    layer: nn.BatchNorm2d, forward: Callable[[Tensor], Tensor], given: Tensor, pooled: bool
) -> list[Tensor]:
    """Normalized maps, the gradients of a function of them, and what the layer counted."""
    maps = given.to(memory_format=torch.channels_last).requires_grad_()
    normalized = forward(maps)
    answer = normalized.mean((2, 3)) if pooled else normalized
    leaves = maps, layer.weight, layer.bias
    gradients = torch.autograd.grad(answer, leaves, drawn(*answer.shape).to(answer.dtype))
    return [normalized.detach(), *gradients, *layer.buffers()]
