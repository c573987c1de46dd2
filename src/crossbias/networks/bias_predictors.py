"""The bias network h of LNL: predicts the bias from what an inner layer gives."""

from typing import Literal

import torch
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.functional.colors import LEVELS
from crossbias.networks.network import Network


class LabelPredictor(nn.Module):
    """One linear layer on the features, maps averaged over space (LNL, section 5.1).

    Args:
        channels: Number of features or of maps.
        values: Number of bias values.
    """

    def __init__(self, channels: int, values: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, values)

    def forward(self, tapped: Tensor) -> Tensor:
        """Scores ``(B, values)`` from features ``(B, D)`` or maps ``(B, D, h, w)``."""
        pooled = tapped if tapped.ndim == 2 else tapped.mean((2, 3))
        return self.linear(pooled)  # type: ignore[no-any-return]


class ColorPredictor(nn.Module):
    """Two convolutions for each color channel, with batch normalization between, as released.

    The channels' networks share nothing; they are computed side by side.

    Args:
        channels: Number of maps.
        colors: Number of color channels of the image.
        levels: Number of levels of a color.
        pooled: Whether the scores are averaged over the image, so that every position is given
            the same; else each is judged by its surroundings.
    """

    def __init__(self, channels: int, colors: int, levels: int, *, pooled: bool = False) -> None:
        super().__init__()
        self.colors = colors
        self.pooled = pooled
        self.first = nn.Conv2d(channels, colors * channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(colors * channels)
        self.second = nn.Conv2d(colors * channels, colors * levels, 3, padding=1, groups=colors)

    def forward(self, tapped: Tensor) -> Tensor:
        """Scores ``(B, levels, colors, h, w)`` from maps ``(B, D, h, w)``."""
        scores: Tensor = self.second(self.norm(self.first(tapped)).relu())
        if self.pooled:
            scores = scores.mean((2, 3), keepdim=True).expand_as(scores)
        batch, _, height, width = scores.shape
        return scores.view(batch, self.colors, -1, height, width).transpose(1, 2)


def bias_predictor(
    target: Literal["labels", "color"],
    data: BiasedDataset,
    shape: torch.Size,
    view: Literal["position", "image"],
) -> nn.Module:
    """The bias network for a kind of bias target, from a layer that gives ``shape`` a sample."""
    if target == "labels":
        return LabelPredictor(shape[0], data.num_biases)
    return ColorPredictor(shape[0], data.inputs.shape[1], LEVELS, pooled=view == "image")


def check_predictable(
    target: Literal["labels", "color"], data: BiasedDataset, shape: torch.Size
) -> None:
    """Refuse what ``bias_predictor`` cannot be made for.

    Raises:
        CrossbiasError: The data has no two bias values, or no such target can be predicted from
            a layer of this shape.
    """
    if target == "labels":
        _check_labels(data, shape)
    elif data.inputs.ndim != 4 or len(shape) != 3 or shape[1] != shape[2]:
        raise CrossbiasError(
            f"color is predicted on a square grid from images, but {data.name} has inputs "
            f"{tuple(data.inputs.shape[1:])}, of which the layer gives {tuple(shape)}; name a "
            f"layer that gives square maps, or use target='labels'"
        )


def _check_labels(data: BiasedDataset, shape: torch.Size) -> None:
    if (data.counts().sum(0) > 0).sum() < 2:
        raise CrossbiasError(
            f"there is nothing to unlearn: attribute {data.bias!r} of {data.name} has only one "
            f"value; name another attribute, or unlearn the color with target='color'"
        )
    if len(shape) not in (1, 3):
        raise CrossbiasError(
            f"bias labels are predicted from features (D) or maps (D, h, w), but the layer gives "
            f"{tuple(shape)}; name another layer"
        )


def middle_layer(network: Network) -> str:
    """Name of the layer that ends the feature network f of LNL (CVPR 2019, section 5.1).

    Of a ResNet what is below its two topmost residual blocks, the last stage; of a chain of
    convolutions the first half of them. Empty for any other network: f is its whole body then.

    >>> layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU()]
    >>> middle_layer(Network(nn.Sequential(*layers), nn.Linear(4, 2)))
    'body.1'
    """
    # Stages of timm's and torchvision's ResNets are layer1 to layer4.
    for name in (str(name) for name, _ in network.named_modules()):
        if name.endswith(".layer3"):
            return name
    if not isinstance(network.body, nn.Sequential):
        return ""
    layers = list(network.body.named_children())
    convolutions = [place for place, (_, layer) in enumerate(layers) if _convolves(layer)]
    if len(convolutions) < 2:
        return ""
    first_of_g = convolutions[len(convolutions) // 2]
    return f"body.{layers[first_of_g - 1][0]}"


def _convolves(layer: nn.Module) -> bool:
    return any(isinstance(module, nn.Conv2d) for module in layer.modules())
