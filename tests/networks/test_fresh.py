"""New random weights depend on the seed and on how a network is initialized, not on its draw."""

from collections.abc import Callable

import pytest
import torch
import torchvision
from torch import nn

import crossbias
from crossbias.networks.fresh import redraw


def custom(initialize: Callable[[torch.Tensor], object]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layer = nn.Conv2d(8, 16, 3)
        initialize(layer.weight)
        return nn.Sequential(layer, nn.BatchNorm2d(16))

    return make


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "torchvision": lambda: torchvision.models.resnet18(num_classes=2),
    "grouped": lambda: torchvision.models.mobilenet_v3_small(num_classes=2),
    "timm": lambda: crossbias.create("regnety_002", num_classes=2),
    "ours": lambda: crossbias.create("convnet", num_classes=3),
    "no norm": lambda: crossbias.create("mlp", num_classes=3, in_features=108),
    "glorot": custom(nn.init.xavier_uniform_),
    "kaiming by inputs": custom(nn.init.kaiming_normal_),
    "transformer": custom(lambda weight: nn.init.trunc_normal_(weight, std=0.02)),
}


def drawn(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def redrawn(network: nn.Module) -> dict[str, torch.Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        redraw(network)
    return network.state_dict()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_another_draw_of_one_initialization_ends_in_the_same_weights(make):
    given = drawn(make, 0).state_dict()
    one, other = (redrawn(drawn(make, seed)) for seed in (0, 1))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    for name, tensor in one.items():
        if tensor.ndim > 1:
            assert not torch.equal(tensor, given[name])
            # The sizes of two samples: four standard errors of the logarithm of their ratio
            ratio = tensor.double().square().mean() / given[name].double().square().mean()
            assert float(ratio.log().abs()) < 2 * 4 / tensor.numel() ** 0.5, name


def test_an_initialization_that_is_not_a_usual_one_is_shuffled():
    make = custom(lambda weight: nn.init.normal_(weight, std=5.0))
    given, found = drawn(make, 0)[0].weight, redrawn(drawn(make, 0))["0.weight"]
    assert not torch.equal(given, found)
    assert torch.equal(given.flatten().sort().values, found.flatten().sort().values)


def test_a_trained_network_starts_anew():
    network = drawn(custom(nn.init.kaiming_normal_), 0)
    network(torch.rand(4, 8, 5, 5))
    found = redrawn(network)
    assert torch.equal(found["1.running_mean"], torch.zeros(16))
    fresh = drawn(lambda: nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)), 1)
    fresh(torch.rand(4, 8, 5, 5))
    assert all(torch.equal(tensor, found[name]) for name, tensor in redrawn(fresh).items())
