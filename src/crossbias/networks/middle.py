"""Where LNL cuts a network in two if nobody says."""

from torch import nn

from crossbias.networks.network import Network


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
