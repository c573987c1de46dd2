"""grad_cam against finite differences of the logits, and what must change it and what must not."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crossbias import Network, as_network
from crossbias.networks import create_network
from crossbias.networks.grad_cam import grad_cam


class Normed(nn.Module):
    """A body whose features are not the mean of its maps: there is no closed form."""

    def __init__(self, maps: nn.Module) -> None:
        super().__init__()
        self.maps = maps

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.maps(inputs)
        return maps, F.normalize(maps.amax((2, 3)) + maps.mean((2, 3)) ** 3)


def body() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Dropout(0.5))


def made(kind: str) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layers = body()
        for layer in (layers[1].running_mean, layers[1].running_var):
            layer.uniform_(0.2, 1.5)
        return Network(layers if kind == "mean" else Normed(layers), nn.Linear(4, 3)).double()


def inputs(samples: int = 3) -> Tensor:
    draw = torch.Generator().manual_seed(2)
    return torch.randn(samples, 2, 6, 7, generator=draw, dtype=torch.float64)


def by_differences(network: Network, one: Tensor, label: int) -> Tensor:
    """Grad-CAM of one sample without autograd: nudge every map value, see what the logit does."""
    network = copy.deepcopy(network).eval()
    pooled = isinstance(network.body, Normed)
    with torch.no_grad():
        maps = (network.body.maps if pooled else network.body)(one[None])[0]  # (D, h, w)

        def logit(changed: Tensor) -> float:
            mean = changed.mean((1, 2))
            features = F.normalize(changed.amax((1, 2)) + mean**3, dim=0) if pooled else mean
            return float(network.head(features)[label])

        total = torch.zeros(maps.shape[1:], dtype=maps.dtype)
        for channel in range(len(maps)):
            weight = 0.0
            for row in range(maps.shape[1]):
                for column in range(maps.shape[2]):
                    up, down = maps.clone(), maps.clone()
                    up[channel, row, column] += 1e-6
                    down[channel, row, column] -= 1e-6
                    weight += (logit(up) - logit(down)) / 2e-6
            total += weight / maps[0].numel() * maps[channel]
    positive = total.clamp(min=0)
    return positive / positive.max().clamp(min=1e-30)


@pytest.mark.parametrize("kind", ["mean", "other"])
def test_it_equals_finite_differences(kind: str) -> None:
    network, batch, target = made(kind), inputs(), torch.tensor([2, 0, 1])
    found = grad_cam(network, batch, target)
    assert found is not None
    expected = [by_differences(network, batch[i], int(target[i])) for i in range(3)]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-5, atol=1e-5)


def test_evidence_that_is_planted_is_where_the_map_is() -> None:
    """The head counts bright spots of the first channel for class 0 and of the second for 1."""
    network = Network(nn.Identity(), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        network.head.weight.copy_(torch.eye(2))
    picture = torch.zeros(2, 2, 5, 5)
    picture[:, 0, 1, 1] = picture[:, 1, 3, 4] = 1.0
    found = grad_cam(network, picture, torch.tensor([0, 1]))
    assert found is not None
    assert found.nonzero().tolist() == [[0, 1, 1], [1, 3, 4]]


@pytest.mark.parametrize("kind", ["mean", "other"])
@pytest.mark.parametrize("part", ["head", "body"])
def test_other_weights_give_other_maps(kind: str, part: str) -> None:
    """Model randomization (Adebayo et al., NeurIPS 2018): a map that stayed would be an edge
    detector, not an explanation."""
    network, batch, target = made(kind), inputs(8), torch.arange(8) % 3
    before = grad_cam(network, batch, target)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in getattr(network, part).parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw))
    after = grad_cam(network, batch, target)
    assert before is not None
    assert after is not None
    pairs = torch.stack([before.flatten(), after.flatten()])
    assert torch.corrcoef(pairs)[0, 1] < 0.5
    repeated = grad_cam(network, batch, target)
    assert torch.equal(after, repeated)


@pytest.mark.parametrize("kind", ["mean", "other"])
def test_the_network_is_left_as_it_was(kind: str) -> None:
    network = made(kind).train().requires_grad_(False)
    before = copy.deepcopy(network.state_dict())
    with torch.inference_mode():
        batch = inputs()
    with torch.no_grad():
        found = grad_cam(network, batch.clone(), torch.tensor([0, 1, 2]))
    assert found is not None
    assert not found.requires_grad
    assert network.training
    assert all(parameter.grad is None for parameter in network.parameters())
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])


def test_networks_without_maps_have_none() -> None:
    network = create_network("mlp", num_classes=3, in_features=12)
    assert grad_cam(network, torch.zeros(2, 3, 2, 2), torch.tensor([0, 1])) is None


@pytest.mark.parametrize("name", ["convnet-end", "resnet10t", "test_convnext"])
def test_networks_by_name_have_maps(name: str) -> None:
    network = create_network(name, num_classes=3)
    found = grad_cam(network, torch.rand(2, 3, 32, 32), torch.tensor([0, 1]))
    assert found is not None
    assert found.isfinite().all()
    assert len(found) == 2


class Last(nn.Module):
    """A model as timm makes them, whose maps have their channels last."""

    output_fmt = "NHWC"

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.classifier = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

    def forward_features(self, batch: Tensor) -> Tensor:
        return self.convolution(batch).permute(0, 2, 3, 1)

    def forward_head(self, maps: Tensor, pre_logits: bool = False) -> Tensor:
        features = maps.square().mean((1, 2))
        return features if pre_logits else self.classifier(features)

    def get_classifier(self) -> nn.Linear:
        return self.classifier

    def forward(self, batch: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(batch))


def test_maps_with_channels_last_have_gradients_too() -> None:
    network = as_network(Last()).double()
    found = grad_cam(network, inputs(), torch.tensor([0, 1, 2]))
    assert found is not None
    assert found.shape == (3, 4, 5)
    assert found.amax((1, 2)).max() == 1
