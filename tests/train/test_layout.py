"""Maps are channels last where that is faster, and channels first where a network needs it."""

import pytest
import torch
from torch import Tensor, nn

import crossbias
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.methods import ERM
from crossbias.networks import create_network
from crossbias.train.layout import settle_layout

CPU = torch.device("cpu")


class ViewsItsMaps(nn.Module):
    """As in many tutorials: ``view`` allows only channels first."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(4, 6, 3, groups=groups)
        self.dropout = nn.Dropout()
        self.normalization = nn.BatchNorm2d(6)
        self.first, self.last = nn.Linear(6 * 6 * 6, 5), nn.Linear(5, 2)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.normalization(self.dropout(self.convolution(images).relu()))
        return self.last(self.first(maps.view(len(maps), -1)).relu())


def images() -> BiasedDataset:
    inputs = torch.zeros(8, 4, 8, 8, dtype=torch.uint8)
    inputs[::2] += 200
    return BiasedDataset(inputs=inputs, targets=torch.arange(8) % 2, name="small")


def is_channels_last(network: nn.Module) -> bool:
    told_apart = [
        p for p in network.parameters() if p.ndim == 4 and p.shape[1] > 1 and p.shape[2] > 1
    ]
    last = [weight.is_contiguous(memory_format=torch.channels_last) for weight in told_apart]
    assert all(last) or not any(last)
    return all(last)


@pytest.mark.parametrize(
    ("name", "last"),
    [("mobilenetv3_small_050", True), ("small-convnet", False), ("convnet", False)],
)
def test_on_a_cpu_networks_with_grouped_convolutions_are_channels_last(name, last):
    network = create_network(name, num_classes=2)
    settle_layout(network, CPU, (3, 32, 32))
    assert is_channels_last(network) == last
    assert network.training


def test_looking_changes_nothing_in_the_network():
    network = crossbias.as_network(ViewsItsMaps(groups=2), shape=(4, 8, 8))
    network.body.eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    settle_layout(network, CPU, (4, 8, 8))
    assert not is_channels_last(network)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not network.body.training
    assert network.training


def trained(device: str, groups: int) -> Network:
    config = TrainConfig(steps=2, batch_size=4, device=device)
    return crossbias.fit(ERM(), images(), network=ViewsItsMaps(groups), config=config).network


def test_a_network_that_views_its_maps_trains():
    assert not is_channels_last(trained("cpu", groups=2))


@pytest.mark.gpu
@pytest.mark.parametrize("groups", [1, 2])
def test_a_network_that_views_its_maps_trains_on_a_gpu(groups):
    assert not is_channels_last(trained("cuda", groups))
