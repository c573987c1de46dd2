"""Where a network is cut, and what the bias network makes of it."""

import pytest
import timm
import torch
import torchvision
from torch import nn

from crossbias import Network, as_network
from crossbias.errors import CrossbiasError
from crossbias.networks import create_network
from crossbias.networks.bias_predictors import ColorPredictor, LabelPredictor, middle_layer


@pytest.mark.parametrize(
    ("name", "layer", "shape"),
    [
        ("lnl-convnet", "body.5", (32, 14, 14)),
        ("convnet", "body.5", (32, 28, 28)),
        ("simple-convnet-1", "body.4", (8, 12, 12)),
    ],
)
def test_the_lower_half_of_the_convolutions_is_f(name, layer, shape):
    network = create_network(name, num_classes=10).eval()
    assert middle_layer(network) == layer
    network.tap(layer)
    assert network.until_tap(torch.rand(2, 3, 28, 28)).shape == (2, *shape)


def test_two_residual_blocks_of_a_resnet18_are_g():
    for model in (torchvision.models.resnet18(num_classes=2), timm.create_model("resnet18")):
        network = as_network(model).eval()
        layer = middle_layer(network)
        assert layer == "body.model.layer3"
        names = [name for name, _ in network.named_modules()]
        blocks = [name for name in names[names.index(layer) :] if name.count(".") == 3]
        assert [name for name in blocks if ".layer4." in name] == [
            "body.model.layer4.0",
            "body.model.layer4.1",
        ]
        network.tap(layer)
        assert network.until_tap(torch.rand(1, 3, 64, 64)).shape == (1, 256, 4, 4)


def test_of_other_networks_the_whole_body_is_f():
    perceptron = create_network("mlp", num_classes=2, in_features=6)
    assert middle_layer(perceptron) == ""
    inputs = torch.rand(4, 6)
    assert torch.equal(perceptron.until_tap(inputs), perceptron(inputs).features)
    single = Network(nn.Sequential(nn.Conv2d(3, 4, 3)), nn.Linear(4, 2))
    assert middle_layer(single) == ""
    images = torch.rand(2, 3, 5, 5)
    assert torch.equal(single.until_tap(images), single(images).maps)


def test_until_tap_gives_what_forward_taps_and_runs_nothing_after_it():
    later = []
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3))
    body[2].register_forward_hook(lambda *_: later.append(True))
    network = Network(body, nn.Linear(8, 2))
    network.tap("body.1")
    images = torch.rand(2, 3, 9, 9)
    assert torch.equal(network.until_tap(images), network(images).tapped)
    assert len(later) == 1
    assert not body[1]._forward_hooks
    network.tap("")
    assert network(images).tapped is None


def test_a_layer_whose_output_is_not_one_tensor_is_refused():
    network = create_network("convnet-end", num_classes=2)
    network.tap("body")
    for use in (network, network.until_tap):
        with pytest.raises(CrossbiasError, match="layer 'body' gives a tuple"):
            use(torch.rand(2, 3, 8, 8))
    unused = Network(nn.Conv2d(3, 4, 3), nn.Linear(4, 2))
    unused.body.extra = nn.ReLU()
    unused.tap("body.extra")
    for use in (unused, unused.until_tap):
        with pytest.raises(CrossbiasError, match=r"'body.extra' is not run by the network"):
            use(torch.rand(2, 3, 8, 8))


def test_lnl_convnet_is_the_released_one():
    torch.manual_seed(0)
    network = create_network("lnl-convnet", num_classes=10)
    kinds = [type(layer).__name__ for layer in network.body]
    assert kinds == ["BatchNorm2d", "Conv2d", "ReLU", "MaxPool2d", *["Conv2d", "ReLU"] * 3]
    convolutions = [layer for layer in network.body if isinstance(layer, nn.Conv2d)]
    shapes = [tuple(layer.weight.shape) for layer in convolutions]
    assert shapes == [(32, 3, 5, 5), (32, 32, 3, 3), (64, 32, 3, 3), (64, 64, 3, 3)]
    assert network(torch.rand(2, 3, 28, 28)).maps.shape == (2, 64, 7, 7)
    last = network.body[8].weight
    assert last.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)


def test_lnl_convnet_of_the_paper_normalizes_after_every_convolution():
    network = create_network("lnl-convnet", num_classes=10, normalized=True)
    kinds = [type(layer).__name__ for layer in network.body]
    normalized = ["Conv2d", "BatchNorm2d", "ReLU"]
    assert kinds == ["BatchNorm2d", *normalized, "MaxPool2d", *normalized * 3]
    network.tap(middle_layer(network))
    assert network.until_tap(torch.rand(2, 3, 28, 28)).shape == (2, 32, 14, 14)


def test_a_color_predictor_is_one_network_for_each_channel():
    torch.manual_seed(0)
    predictor = ColorPredictor(4, colors=3, levels=8)
    maps = torch.rand(5, 4, 6, 6)
    scores = predictor(maps)
    assert scores.shape == (5, 8, 3, 6, 6)
    for channel in range(3):
        hidden, out = slice(4 * channel, 4 * channel + 4), slice(8 * channel, 8 * channel + 8)
        first, second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        first.weight.data, first.bias.data = (
            predictor.first.weight[hidden],
            predictor.first.bias[hidden],
        )
        second.weight.data, second.bias.data = (
            predictor.second.weight[out],
            predictor.second.bias[out],
        )
        own = nn.Sequential(first, nn.BatchNorm2d(4), nn.ReLU(), second)(maps)
        torch.testing.assert_close(scores[:, :, channel], own)


def test_a_label_predictor_pools_maps():
    predictor = LabelPredictor(4, 3)
    maps = torch.rand(5, 4, 6, 6)
    torch.testing.assert_close(predictor(maps), predictor(maps.flatten(2).mean(2)))
