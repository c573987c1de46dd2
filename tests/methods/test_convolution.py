"""The convolution with an unfolded weight gradient against torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from crossbias.methods import batchable_layers
from crossbias.methods.batchable_layers import BatchableLayers

LAYERS = {
    "plain": nn.Conv2d(3, 5, 3),
    "strided": nn.Conv2d(3, 5, (3, 2), stride=(2, 1), padding=1),
    "dilated": nn.Conv2d(3, 5, 3, padding=(2, 1), dilation=2, bias=False),
    "pointwise": nn.Conv2d(3, 5, 1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_output_and_gradients_are_those_of_conv2d(name):
    layer = LAYERS[name].double()
    inputs = torch.rand(2, 3, 8, 9, dtype=torch.float64, requires_grad=True)
    wanted = [inputs, *layer.parameters()]
    expected = layer(inputs)
    with BatchableLayers():
        found = layer(inputs)
    own = found.grad_fn if layer.bias is None else found.grad_fn.next_functions[0][0]
    assert type(own).__name__ == "_ConvolutionBackward"
    torch.testing.assert_close(found, expected)
    towards = torch.rand_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, towards), torch.autograd.grad(expected, wanted, towards)
    )


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_single_samples(name, check_single_samples):
    inputs = torch.rand(4, 3, 8, 9, dtype=torch.float64)
    check_single_samples(LAYERS[name].double(), inputs, error=1e-9)


@pytest.mark.parametrize("options", [{"groups": 3}, {"padding": "same"}])
def test_other_convolutions_stay_as_they_are_but_for_the_precision(options, monkeypatch):
    monkeypatch.setattr(batchable_layers, "_Convolution", None)  # calling it would fail
    inputs, weight = torch.rand(1, 3, 6, 6), torch.rand(6, 3 // options.get("groups", 1), 3, 3)
    bias = torch.rand(6)
    expected = F.conv2d(inputs, weight, bias, **options)
    with BatchableLayers():
        torch.testing.assert_close(F.conv2d(inputs, weight, bias, **options), expected)
    with BatchableLayers(torch.bfloat16):
        low = F.conv2d(inputs, weight, bias, **options)
    assert low.dtype == torch.float32
    assert 0 < (low - expected).abs().max() < 0.1


def test_one_number_in_a_list_and_an_image_without_a_batch():
    inputs = torch.rand(1, 3, 6, 6)
    weight = torch.rand(2, 3, 3, 3, requires_grad=True)
    (expected,) = torch.autograd.grad(F.conv2d(inputs, weight, stride=2).sum(), weight)
    for images, options in ((inputs, {"stride": [2]}), (inputs[0], {"stride": 2})):
        with BatchableLayers():
            output = F.conv2d(images, weight, **options)
        (found,) = torch.autograd.grad(output.sum(), weight)
        torch.testing.assert_close(found, expected)


def test_a_first_derivative_keeps_nothing_for_a_second():
    weight = torch.rand(2, 3, 3, 3, requires_grad=True)
    with BatchableLayers():
        output = F.conv2d(torch.rand(1, 3, 6, 6), weight)
    (found,) = torch.autograd.grad(output.square().sum(), weight, create_graph=True)
    assert not found.requires_grad


@pytest.mark.parametrize("name", LAYERS)
def test_lower_precision_is_near_and_leaves_the_types_alone(name):
    layer = LAYERS[name].float()
    inputs = torch.rand(2, 3, 8, 9, requires_grad=True)
    wanted = [inputs, *layer.parameters()]
    expected = layer(inputs)
    with BatchableLayers(torch.bfloat16):
        found = layer(inputs)
    towards = torch.rand_like(expected)
    pairs = zip(
        [found, *torch.autograd.grad(found, wanted, towards)],
        [expected, *torch.autograd.grad(expected, wanted, towards)],
        strict=True,
    )
    for low, full in pairs:
        assert low.dtype == torch.float32
        torch.testing.assert_close(low, full, rtol=0.05, atol=0.05)
    assert not torch.equal(found, expected)


@pytest.mark.parametrize("wanted", ["images", "weight"])
def test_only_gradients_that_are_asked_for_are_computed(wanted, monkeypatch):
    other = {"images": "_weight_gradient", "weight": "conv2d_input"}[wanted]
    monkeypatch.setattr(batchable_layers, other, None)  # calling it would fail
    images = torch.rand(1, 3, 6, 6, requires_grad=wanted == "images")
    weight = torch.rand(2, 3, 3, 3, requires_grad=wanted == "weight")
    with BatchableLayers():
        F.conv2d(images, weight).sum().backward()
    assert (images.grad is None) == (wanted == "weight")
    assert (weight.grad is None) == (wanted == "images")
