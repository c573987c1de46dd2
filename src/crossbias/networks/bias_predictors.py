"""The bias network h of LNL, which predicts the bias from an inner layer, and where that is."""

from torch import Tensor, nn

from crossbias.networks.network import Network


class LabelPredictor(nn.Module):
    """One linear layer on the features, maps averaged over space (LNL, section 5.1)."""

    def __init__(self, channels: int, values: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, values)

    def forward(self, tapped: Tensor) -> Tensor:
        """Scores ``(B, values)`` from features ``(B, D)`` or maps ``(B, D, h, w)``."""
        pooled = tapped if tapped.ndim == 2 else tapped.mean((2, 3))
        return self.linear(pooled)  # type: ignore[no-any-return]


class ColorPredictor(nn.Module):
    """Two convolutions for each color channel, with batch normalization between, as released.

    The color channels' networks share nothing; they are computed side by side.
    """

    def __init__(self, channels: int, colors: int, levels: int) -> None:
        super().__init__()
        self.colors = colors
        self.first = nn.Conv2d(channels, colors * channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(colors * channels)
        self.second = nn.Conv2d(colors * channels, colors * levels, 3, padding=1, groups=colors)

    def forward(self, tapped: Tensor) -> Tensor:
        """Scores ``(B, levels, colors, h, w)`` from maps ``(B, D, h, w)``."""
        scores: Tensor = self.second(self.norm(self.first(tapped)).relu())
        batch, _, height, width = scores.shape
        return scores.view(batch, self.colors, -1, height, width).transpose(1, 2)


def middle_layer(network: Network) -> str:
    """Name of the layer that ends the feature network f of LNL (CVPR 2019, section 5.1).

    In a ResNet it ends before the last stage, the two topmost residual blocks. In a chain of
    convolutions it ends after the first half of them. For any other network the name is empty:
    f is the whole body.

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
    convolutions = [
        place
        for place, (_, layer) in enumerate(layers)
        if any(isinstance(module, nn.Conv2d) for module in layer.modules())
    ]
    if len(convolutions) < 2:
        return ""
    first_of_g = convolutions[len(convolutions) // 2]
    return f"body.{layers[first_of_g - 1][0]}"
