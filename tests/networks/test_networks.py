"""Networks of the papers, and other people's split in two."""

import copy

import pytest
import timm
import torch
import torchvision
from torch import nn
from torchvision import models

from crossbias.errors import CrossbiasError
from crossbias.networks import Network, Recipe, as_network, create_network, weights
from crossbias.networks.network import has_batch_norm

SMALL = {
    "convnet": (128, (28, 28)),
    "convnet-1x1": (128, (28, 28)),
    "convnet-end": (128, (28, 28)),
    "simple-convnet-1": (64, (1, 1)),
    "small-convnet": (64, (8, 8)),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_papers_networks_give_logits_features_and_maps(name):
    network = create_network(name, num_classes=10).eval()
    output = network(torch.rand(2, 3, 28, 28))
    features, spatial = SMALL[name]
    assert output.logits.shape == (2, 10)
    assert output.features.shape == (2, features)
    assert output.maps.shape == (2, features, *spatial)
    torch.testing.assert_close(output.logits, network.head(output.features))


@pytest.mark.parametrize(
    ("name", "pixels", "sides"),
    [
        ("simple-convnet-1", 28, [25, 12, 9, 4, 1]),
        ("simple-convnet-1", 56, [53, 26, 23, 11, 8]),  # Watermarked MNIST: Figure 9a pools 8 x 8
        ("simple-convnet-1", 25, [22, 11, 8, 4, 1]),  # the smallest images it takes
        ("small-convnet", 28, [29, 14, 15, 7, 8]),
        ("small-convnet", 16, [17, 8, 9, 4, 5]),
    ],
)
def test_sides_of_the_maps_of_pgds_network(name, pixels, sides):
    """After each convolution and each pooling."""
    network, found = create_network(name, num_classes=10).eval(), []
    for layer in network.body:
        if isinstance(layer, nn.Conv2d | nn.AvgPool2d):
            layer.register_forward_hook(lambda *args: found.append(args[2].shape[-1]))
    network(torch.rand(1, 3, pixels, pixels))
    assert found == sides


@pytest.mark.parametrize(("name", "side"), [("convnet-1x1", 1), ("convnet", 25)])
def test_receptive_field_measured_by_the_input_gradient(name, side):
    """One output pixel of four k x k layers sees 4 (k - 1) + 1 pixels a side."""
    network = create_network(name, num_classes=10).eval()
    image = torch.rand(1, 3, 41, 41, requires_grad=True)
    network(image).maps[0, :, 20, 20].sum().backward()
    seen = image.grad.abs().sum((0, 1)) > 0
    assert seen.any(0).sum() == side
    assert seen.any(1).sum() == side


def test_convnet_end_feeds_unit_vectors_of_tanh_maps_to_the_head():
    output = create_network("convnet-end", num_classes=10)(torch.rand(4, 3, 28, 28))
    torch.testing.assert_close(output.features.norm(dim=1), torch.ones(4))
    assert output.maps.abs().max() <= 1
    assert output.maps.min() < 0


def test_mlp_takes_vectors_and_flattens_images():
    assert create_network("mlp", num_classes=3, in_features=2)(torch.rand(5, 2)).maps is None
    network = create_network("mlp", num_classes=3, in_features=12)
    assert network(torch.rand(5, 3, 2, 2)).logits.shape == (5, 3)


SIZES = {"num_classes": 3, "shape": (3, 6, 6)}


def test_a_recipe_fits_the_network_to_the_inputs():
    network = Recipe("convnet", {"kernel": 3}).build(num_classes=3, shape=(1, 6, 6))
    assert network.num_classes == 3
    assert network.body[0].in_channels == 1
    assert Recipe("mlp").build(**SIZES).body[1].in_features == 3 * 6 * 6
    assert Recipe("resnet18.a1_in1k").build(**SIZES).num_classes == 3


def test_a_recipe_for_images_refuses_vectors():
    with pytest.raises(CrossbiasError, match="takes images, but the inputs are vectors; use 'mlp'"):
        Recipe("convnet").build(num_classes=3, shape=(2,))


def test_a_recipe_builds_the_readers_own_model():
    network = Recipe("torchvision.models:resnet18", {}).build(**SIZES)
    assert network.num_classes == 3


def wide_enough(model: nn.Module) -> nn.Module:
    """Statistics that differ from the initial ones, so that a mistake in the split shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape))
    return model.eval()


# Families as they are, but narrow and shallow where that can be asked for; and if they have maps.
TIMM = {
    "resnet18": ({}, True),
    "vit_tiny_patch16_224": ({"img_size": 64, "depth": 2}, False),
    "convnext_atto": ({}, True),
    "vgg11": ({"mlp_ratio": 1 / 128}, True),
}
TORCHVISION = {
    "resnet18": (models.resnet18, {}, True),
    "mobilenet_v3_small": (models.mobilenet_v3_small, {}, True),
    "efficientnet_b0": (models.efficientnet_b0, {}, True),
    "densenet": (models.DenseNet, {"growth_rate": 8, "block_config": (2, 2)}, True),
    "swin": (
        models.SwinTransformer,
        {"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4]}
        | {"window_size": [7, 7]},
        True,
    ),
    "vit": (
        models.VisionTransformer,
        {"image_size": 64, "patch_size": 32, "num_layers": 2, "num_heads": 2}
        | {"hidden_dim": 32, "mlp_dim": 64},
        False,
    ),
}


@pytest.mark.parametrize("name", TIMM)
def test_a_timm_model_split_in_two_computes_the_same(name):
    options, has_maps = TIMM[name]
    model = wide_enough(timm.create_model(name, num_classes=5, **options))
    images = torch.rand(2, 3, 64, 64)
    network = as_network(model).eval()
    output = network(images)
    torch.testing.assert_close(output.logits, model(images))
    assert (output.maps is not None) == has_maps
    assert network.num_classes == 5


@pytest.mark.parametrize("name", TORCHVISION)
def test_a_torchvision_model_split_in_two_computes_the_same(name):
    make, options, has_maps = TORCHVISION[name]
    model = wide_enough(make(num_classes=5, **options))
    images = torch.rand(2, 3, 64, 64)
    output = as_network(model).eval()(images)
    torch.testing.assert_close(output.logits, model(images))
    assert (output.maps is not None) == has_maps


def test_maps_of_a_split_resnet_are_what_was_pooled():
    for model in (timm.create_model("resnet18", num_classes=5), torchvision.models.resnet18()):
        output = as_network(model).eval()(torch.rand(2, 3, 64, 64))
        torch.testing.assert_close(output.maps.mean((2, 3)), output.features)


def test_splitting_copies_and_leaves_the_model_as_it_was():
    model = torchvision.models.resnet18(num_classes=4).eval()
    network = as_network(model)
    assert isinstance(model.fc, nn.Linear)
    network.head.weight.data.zero_()
    assert model.fc.weight.abs().sum() > 0


def test_no_state_is_left_between_forwards():
    network = as_network(torchvision.models.resnet18(num_classes=4))
    network(torch.rand(2, 3, 64, 64))
    assert not any(module._forward_pre_hooks for module in network.modules())
    assert not any(torch.is_tensor(kept) for kept in vars(network.body).values())


def test_a_sequential_that_pools_keeps_its_maps():
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(8, 2))
    images = torch.rand(2, 3, 9, 9)
    output = as_network(model)(images)
    torch.testing.assert_close(output.logits, model(images))
    assert output.maps.shape == (2, 8, 7, 7)


def test_a_network_is_returned_as_it_is(network):
    assert as_network(network) is network


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, inputs):
        return self.last(self.first(inputs)).softmax(1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Odd(), r"model.last \(3 to 2\)"),
        (torchvision.models.squeezenet1_0(num_classes=2), "it has no linear layer"),
        (timm.create_model("resnet18", num_classes=0), "it has no linear layer"),
        (nn.Sequential(nn.Linear(2, 2), nn.Softmax(1)), "Pass Network"),
    ],
    ids=["unknown", "no-linear", "no-classifier", "sequential"],
)
def test_what_cannot_be_split_is_refused_with_what_to_pass_by_hand(model, message):
    with pytest.raises(CrossbiasError, match=message):
        as_network(model)


def test_a_head_that_does_not_fit_the_body_says_which_would():
    network = Network(nn.Conv2d(3, 8, 3), nn.Linear(7, 2))
    with pytest.raises(CrossbiasError, match=r"nn.Linear\(8, 2\)"):
        network(torch.rand(1, 3, 5, 5))


def test_pretrained_weights_without_a_network_fail_with_the_remedy(monkeypatch):
    def offline(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(timm, "create_model", offline)
    monkeypatch.setattr(weights, "_is_reachable", lambda address: False)
    with pytest.raises(CrossbiasError, match=r"pretrained weights of 'resnet18' .*no route"):
        create_network("resnet18", num_classes=2, pretrained=True)


def test_batch_norm_is_seen_anywhere_in_a_network():
    assert has_batch_norm(create_network("convnet", num_classes=2))
    assert not has_batch_norm(create_network("mlp", num_classes=2, in_features=2))


def test_a_tapped_layer_comes_with_the_output_also_of_a_copy():
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3))
    network = Network(body, nn.Linear(8, 10))
    inputs = torch.rand(2, 3, 9, 9)
    assert network(inputs).tapped is None
    network.tap("body.1")
    copied = copy.deepcopy(network)
    nn.init.zeros_(network.body[0].weight)
    torch.testing.assert_close(copied(inputs).tapped, copied.body[:2](inputs))
    assert not copied.body[1]._forward_hooks


def test_a_layer_that_is_not_there_is_refused_with_those_that_are():
    network = Network(nn.Sequential(nn.Conv2d(3, 8, 3)), nn.Linear(8, 10))
    with pytest.raises(CrossbiasError, match=r"no layer 'body.7'.*its layers are: body, body.0"):
        network.tap("body.7")


def test_features_and_logits_are_float32_under_autocast():
    """A shape's share of an averaged color is smaller than the last bit of bf16."""
    network = Network(nn.Conv2d(3, 8, 1), nn.Linear(8, 4))
    nn.init.constant_(network.body.weight, 0.5)  # drawn ones may add up to nearly nothing
    images = torch.full((1, 3, 28, 28), 0.5).repeat(2, 1, 1, 1)
    images[1, :, 14, 14] += 0.25  # one pixel of 784
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = network(images)
    assert output.maps.dtype == torch.bfloat16
    assert output.features.dtype == output.logits.dtype == torch.float32
    assert (output.features[0] != output.features[1]).all()
    assert (output.logits[0] != output.logits[1]).all()
