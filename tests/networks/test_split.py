"""Splitting models of other people: the parts compute what the whole did, or are refused."""

import copy

import pytest
import timm
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from crossbias import Recipe, as_network
from crossbias.errors import CrossbiasError
from crossbias.networks.grad_cam import grad_cam


def moved(model: nn.Module) -> nn.Module:
    """Weights and statistics as after a training: a layer that is left out then shows."""
    torch.manual_seed(0)
    for name, tensor in model.state_dict().items():
        if "var" in name:
            tensor.add_(torch.rand(tensor.shape))
        elif tensor.is_floating_point():
            tensor.add_(0.05 * torch.randn(tensor.shape))
    return model.eval()


class Own(nn.Module):
    """A plain module: functional activations and pooling, a head with any name."""

    def __init__(self, channels: int = 3, end=lambda logits: logits) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, 4, 3), nn.Conv2d(4, 8, 3)
        self.answer = nn.Linear(8, 5)
        self.end = end

    def forward(self, images):
        maps = F.relu(self.second(F.relu(self.first(images))))
        return self.end(self.answer(maps.mean((2, 3))))


class Flat(nn.Module):
    """Fits images of one size only."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.layer, self.head = nn.Conv2d(1, 2, 3), nn.Linear(2 * (side - 2) ** 2, 3)

    def forward(self, images):
        return self.head(self.layer(images).flatten(1))


@pytest.mark.parametrize("name", ["efficientvit_m0", "shvit_s1"])
def test_a_normalization_before_the_last_layer_is_kept(name):
    """Before training it changes nothing, so that logits alone would not tell."""
    model = timm.create_model(name, num_classes=5)
    network = as_network(model).eval()
    network.body.model.load_state_dict(moved(model).state_dict(), strict=False)
    network.head.load_state_dict(model.get_classifier().state_dict())
    images = torch.rand(2, 3, 224, 224)
    torch.testing.assert_close(network(images).logits, model(images))


def with_end(model: nn.Module, *layers: nn.Module) -> nn.Module:
    model.fc = nn.Sequential(nn.Linear(512, 5), *layers)
    return model


@pytest.mark.parametrize(
    "model",
    [
        with_end(torchvision.models.resnet18(), nn.LogSoftmax(1)),
        with_end(torchvision.models.resnet18(), nn.Softmax(1)),
        Own(end=lambda logits: logits.softmax(1)),
        Own(end=lambda logits: 2 * logits),
        nn.Sequential(Own(), nn.Sigmoid()),
        timm.create_model("deit_tiny_distilled_patch16_224", num_classes=5, depth=1),
    ],
)
def test_what_comes_after_the_last_linear_layer_is_refused_and_named(model):
    with pytest.raises(CrossbiasError, match="something comes after the last one; take it out"):
        as_network(model)


def test_a_rectified_head_of_zeros_is_refused_too():
    model = Own(end=F.relu)
    for parameter in model.answer.parameters():
        nn.init.zeros_(parameter)
    with pytest.raises(CrossbiasError, match="something comes after the last one"):
        as_network(model)


class Several(nn.Module):
    def __init__(self, give) -> None:
        super().__init__()
        self.inner, self.give = Own(), give

    def forward(self, images):
        return self.give(self.inner(images))


@pytest.mark.parametrize(
    ("give", "what"),
    [
        (lambda logits: {"logits": logits}, "it gives dict and not logits"),
        (lambda logits: logits[:, :, None], r"it gives a tensor of \(2, 5, 1\) and not logits"),
    ],
)
def test_outputs_that_are_not_logits_are_refused(give, what):
    with pytest.raises(CrossbiasError, match=what):
        as_network(Several(give))


def test_any_module_that_ends_in_a_linear_layer_is_split():
    model = moved(Own())
    network, images = as_network(model).eval(), torch.rand(2, 3, 9, 9)
    output = network(images)
    torch.testing.assert_close(output.logits, model(images))
    torch.testing.assert_close(output.maps.mean((2, 3)), output.features)
    assert output.maps.min() >= 0
    assert output.maps.shape == (2, 8, 5, 5)


MAPS = {"mobilenet_v2": 1280, "shufflenet_v2_x0_5": 1024, "densenet121": 1024, "resnet18": 512}


@pytest.mark.parametrize("name", MAPS)
def test_maps_that_a_model_averages_by_a_function_are_found(name):
    model = moved(getattr(torchvision.models, name)(num_classes=5))
    network = as_network(model, shape=(3, 64, 64)).eval()
    images = torch.rand(2, 3, 64, 64)
    output = network(images)
    torch.testing.assert_close(output.logits, model(images))
    assert output.maps.shape == (2, MAPS[name], 2, 2)
    torch.testing.assert_close(output.maps.mean((2, 3)), output.features, rtol=1e-4, atol=1e-4)
    assert grad_cam(network, images, torch.tensor([0, 1])).shape == (2, 2, 2)


class Squeezed(nn.Module):
    """Maps scaled by their average, and a layer between the last average and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.pool, self.last = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.ReLU()
        self.middle, self.head = nn.Linear(8, 6), nn.Linear(6, 5)

    def forward(self, images):
        maps = self.layer(images)
        maps = self.last(maps * self.pool(maps).sigmoid())
        return self.head(self.middle(maps.mean((2, 3))).relu())


def test_a_pooling_inside_a_block_does_not_pass_for_the_last_one():
    model, images = Squeezed(), torch.rand(2, 3, 9, 9)
    output = as_network(model)(images)
    torch.testing.assert_close(output.logits, model(images))
    assert output.maps is None


def test_shapes_are_tried_by_the_first_layer_or_given():
    assert as_network(Own(channels=1)).num_classes == 5
    assert as_network(Flat(28)).num_features == 2 * 26**2
    with pytest.raises(CrossbiasError, match=r"does not run on inputs of 1x224x224: .*shape=\(3,"):
        as_network(Flat(17))
    assert as_network(Flat(17), shape=(1, 17, 17)).num_features == 2 * 15**2
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 2))
    assert as_network(mlp)(torch.rand(2, 3, 2, 2)).logits.shape == (2, 2)


@pytest.mark.parametrize("shape", [None, (3, 28, 28)])
def test_weights_of_another_type_are_named_with_the_remedy(shape):
    with pytest.raises(
        CrossbiasError, match=r"Own does not run .*float64 .* call model.float\(\)$"
    ):
        as_network(Own().double(), shape=shape)


def test_a_model_that_fails_on_the_data_is_to_be_tried_by_hand():
    broken = Own(end=lambda logits: logits.none_of_this)
    with pytest.raises(
        CrossbiasError,
        match=r"inputs of 3x28x28: .*none_of_this.*; try .* model\(torch.rand\(2, 3, 28, 28\)\)$",
    ):
        as_network(broken, shape=(3, 28, 28))


def test_a_linear_layer_alone_is_a_head():
    model, vectors = nn.Linear(6, 3), torch.rand(2, 6)
    torch.testing.assert_close(as_network(model)(vectors).logits, model(vectors))


def test_a_model_that_cannot_be_copied_is_refused():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(3))
    with pytest.raises(CrossbiasError, match=r"it cannot be copied \(.*uninitialized parameter"):
        as_network(model)


def test_looking_at_a_model_changes_neither_it_nor_the_generators():
    model = torchvision.models.resnet18(num_classes=5).train()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    network = as_network(model, shape=(3, 32, 32))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in [*model.modules(), *network.modules()])
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
    torch.testing.assert_close(network.head.weight, model.fc.weight, rtol=0, atol=0)


def test_a_model_that_always_drops_features_is_compared_with_the_same_draws():
    class Dropping(Own):
        def forward(self, images):
            return self.answer(F.dropout(self.second(self.first(images)).mean((2, 3)), 0.5))

    assert as_network(Dropping()).num_features == 8


def test_a_recipe_splits_by_the_shape_of_the_data():
    network = Recipe(f"{__name__}:Flat", {"side": 17}).build(num_classes=3, shape=(1, 17, 17))
    assert network.num_features == 2 * 15**2
