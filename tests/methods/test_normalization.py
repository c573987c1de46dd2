"""Batch normalization as a product and a sum against torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from crossbias.methods import batchable_layers
from crossbias.methods.batchable_layers import BatchableLayers


def trained(layer):
    """With statistics and weights that are not those of the start, in evaluation mode."""
    layer = layer.double()
    generator = torch.Generator().manual_seed(0)
    for tensor in layer.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return layer.eval()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.BatchNorm1d(4), (6, 4)),
        (nn.BatchNorm1d(4), (6, 4, 5)),
        (nn.BatchNorm2d(4, eps=0.1), (6, 4, 3, 2)),
        (nn.BatchNorm3d(4, affine=False), (6, 4, 3, 2, 2)),
    ],
)
def test_output_and_gradients_are_those_of_batch_norm(layer, shape):
    layer = trained(layer)
    inputs = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    wanted = [inputs, *layer.parameters()]
    expected = layer(inputs)
    with BatchableLayers():
        found = layer(inputs)
    assert "Addcmul" in type(found.grad_fn).__name__
    torch.testing.assert_close(found, expected)
    towards = torch.rand_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, towards), torch.autograd.grad(expected, wanted, towards)
    )


def test_gradients_of_single_samples(check_single_samples):
    inputs = torch.randn(4, 3, 5, 6, dtype=torch.float64)
    check_single_samples(trained(nn.BatchNorm2d(3)), inputs, error=1e-9)


def test_the_type_of_the_input_stays():
    layer = trained(nn.BatchNorm2d(3)).float()
    with BatchableLayers():
        assert layer(torch.rand(2, 3, 4, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(("precision", "error"), [(None, 1e-5), (torch.bfloat16, 0.05)])
def test_gradients_of_single_samples_through_both_layers(precision, error, check_single_samples):
    generator = torch.Generator().manual_seed(1)
    convolution = nn.Conv2d(3, 4, 3, bias=False)
    nn.init.normal_(convolution.weight, std=0.1, generator=generator)
    network = nn.Sequential(convolution, trained(nn.BatchNorm2d(4)), nn.ReLU()).float()
    inputs = torch.rand(4, 3, 8, 8, generator=generator)
    check_single_samples(network, inputs, precision=precision, error=error)


def test_the_names_of_arguments_are_those_of_torch():
    images, weight, mean = torch.rand(1, 3, 4, 4), torch.rand(2, 3, 1, 1), torch.zeros(3)
    calls = [
        lambda: F.conv2d(input=images, weight=weight),
        lambda: F.batch_norm(input=images, running_mean=mean, running_var=mean + 1, eps=0.1),
    ]
    for call in calls:
        with BatchableLayers():
            found = call()
        torch.testing.assert_close(found, call())


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(3), nn.BatchNorm2d(3, track_running_stats=False)])
def test_statistics_of_the_batch_are_left_to_torch(layer, monkeypatch):
    monkeypatch.setattr(batchable_layers, "fixed_normalization", None)  # calling it would fail
    layer.train(layer.track_running_stats)
    inputs = torch.rand(4, 3, 5, 5)
    expected = F.batch_norm(inputs, None, None, training=True)
    with BatchableLayers():
        torch.testing.assert_close(layer(inputs), expected)
