"""The convolution by Fourier coefficients is the convolution."""

import pytest
import torch
import torch.nn.functional as F

from crossbias.networks.fourier import FourierConv2d, fourier_conv2d


@pytest.mark.parametrize(
    ("height", "width", "kernel"), [(28, 28, 7), (8, 9, 5), (9, 8, 3), (7, 7, 7), (4, 5, 1)]
)
def test_values_and_gradients_are_those_of_the_convolution(height, width, kernel):
    draw = torch.Generator().manual_seed(0)
    shapes = (3, 4, height, width), (5, 4, kernel, kernel), (3, 5, height, width)
    maps, weight, upstream = (
        torch.randn(shape, dtype=torch.float64, generator=draw) for shape in shapes
    )
    found, gradients = [], []
    for convolution in (fourier_conv2d, lambda m, w: F.conv2d(m, w, padding=kernel // 2)):
        leaves = maps.clone().requires_grad_(), weight.clone().requires_grad_()
        found.append(convolution(*leaves))
        gradients.append(torch.autograd.grad(found[-1], leaves, upstream))
    torch.testing.assert_close(*found, atol=1e-11, rtol=0)
    torch.testing.assert_close(*gradients, atol=1e-11, rtol=0)


def test_gradcheck():
    maps = torch.rand(2, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(3, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(fourier_conv2d, (maps, weight))


def test_images_need_no_gradient():
    maps, weight = torch.rand(2, 2, 4, 5), torch.rand(3, 2, 3, 3, requires_grad=True)
    fourier_conv2d(maps, weight).sum().backward()
    assert weight.grad is not None


def test_in_bf16_errors_stay_below_a_percent():
    """bf16 has 8 bits: 0.3% by its own convolution, in the norm of all values."""
    draw = torch.Generator().manual_seed(0)
    maps = torch.randn(8, 16, 28, 28, generator=draw).relu()
    weight = torch.randn(32, 16, 7, 7, generator=draw)
    expected = F.conv2d(maps, weight, padding=3)
    found = fourier_conv2d(maps.bfloat16(), weight.bfloat16()).float()
    assert (found - expected).norm() < 0.01 * expected.norm()


def test_on_the_cpu_and_in_evaluation_it_is_the_plain_layer():
    layer, maps = FourierConv2d(2, 3, 5, padding=2, bias=False), torch.rand(2, 2, 6, 6)
    plain = F.conv2d(maps, layer.weight, padding=2)
    with torch.autocast("cpu", torch.bfloat16, enabled=False):
        assert torch.equal(layer(maps), plain)
        assert torch.equal(layer.eval()(maps), plain)


@pytest.mark.gpu
def test_training_in_bf16_on_a_gpu_goes_through_fourier_coefficients():
    layer = FourierConv2d(16, 32, 7, padding=3, bias=False).cuda()
    maps = torch.rand(4, 16, 28, 28, device="cuda").to(memory_format=torch.channels_last)
    plain = F.conv2d(maps, layer.weight, padding=3)
    with torch.autocast("cuda", torch.bfloat16):
        found = layer(maps)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert (found - plain).norm() < 0.01 * plain.norm()
    assert not torch.equal(found, layer.eval()(maps))
