"""A network that does not fit the data is refused in one line, before a folder is made."""

import copy

import pytest
import timm
import torch
import torchvision
from torch import nn

import crossbias
from crossbias import BiasedDataset, Network, Recipe, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM
from crossbias.train.run import Run
from crossbias.train.trial import check_network

CONFIG = TrainConfig(steps=1, batch_size=4, device="cpu")


def images(channels: int = 3) -> BiasedDataset:
    inputs = torch.zeros(8, channels, 28, 28, dtype=torch.uint8)
    inputs[::2] += 200
    return BiasedDataset(inputs=inputs, targets=torch.arange(8) % 2, name="small")


def vit() -> nn.Module:
    return timm.create_model("vit_tiny_patch16_224", num_classes=2, depth=1)


TOO_SMALL = nn.Sequential(nn.Conv2d(3, 4, 28), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(4, 2))
UNFIT = {
    "vit": (vit, images(), r"'VisionTransformer' does not fit the data: inputs of 3x28x28 fail "
            r"\(AssertionError: Input height.*data.size=224.*network.img_size=28"),
    "recipe": (lambda: Recipe("vit_tiny_patch16_224"), images(), "network 'vit_tiny_patch16_224'"),
    "channels": (lambda: torchvision.models.resnet18(num_classes=2), images(1),
                 r"inputs of 1x28x28 fail .*takes 3 channels, but the images have 1: use --set "
                 r"data.channels=3"),
    "dtype": (lambda: Network(nn.Conv2d(3, 4, 3), nn.Linear(4, 2)).double(), images(),
              r"weights are torch.float64 and inputs float32: call model.float\(\)"),
    "small": (lambda: TOO_SMALL, images(), r"inputs of 3x28x28 fail .*use images of another size"),
    "numbers": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Linear(4, 2)), images(),
                "first layer takes 12 numbers, but an input has 2352"),
    "width": (lambda: Network(nn.Conv2d(3, 8, 3), nn.Linear(7, 2)), images(),
              r"nn.Linear\(8, 2\)"),
    "logits": (torchvision.models.resnet18, images(),
               r"network has 1000 logits, but 'small' has 2 classes \(0, 1\); build it with "
               r"num_classes=2, or replace its last layer with nn.Linear\(512, 2\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNFIT)
def test_an_unfit_network_is_one_line_and_leaves_no_folder(case, tmp_path):
    make, data, message = UNFIT[case]
    with pytest.raises(CrossbiasError, match=message) as raised:
        crossbias.fit(ERM(), data, network=make(), config=CONFIG, folder=tmp_path / "run")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_an_own_class_without_the_number_of_classes_is_refused(tmp_path):
    network = Recipe(f"{__name__}:fixed_at_seven")
    with pytest.raises(CrossbiasError, match="network has 7 logits, but 'small' has 2"):
        crossbias.fit(ERM(), images(), network=network, config=CONFIG, folder=tmp_path / "run")


def fixed_at_seven() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 28 * 28, 7))


def test_an_error_of_ones_own_code_is_named_and_keeps_its_traceback(tmp_path):
    class Broken(nn.Sequential):
        def forward(self, inputs):
            if self.training:
                raise KeyError("colour")
            return super().forward(inputs)

    model = Broken(nn.Flatten(), nn.Linear(3 * 28 * 28, 2))
    with pytest.raises(CrossbiasError, match="KeyError: 'colour'") as raised:
        crossbias.fit(ERM(), images(), network=model, config=CONFIG, folder=tmp_path / "run")
    assert isinstance(raised.value.__cause__, KeyError)


def test_the_trial_changes_neither_network_nor_generators():
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
    network = Network(body, nn.Linear(4, 2))
    run = Run(images(), network=network, config=CONFIG)
    before, state = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    check_network(run)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], now) for name, now in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not run.optimizers


def test_frozen_networks_and_single_samples_pass_the_trial():
    network = Network(nn.Conv2d(3, 4, 3), nn.Linear(4, 2)).requires_grad_(False)
    one = BiasedDataset(inputs=images().inputs[:1], targets=torch.tensor([1]), classes=("a", "b"))
    check_network(Run(one, network=network, config=CONFIG))
