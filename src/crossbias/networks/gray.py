"""Gray: a network that is shown no color, the plain remedy LNL is compared with."""

import torch
from torch import Tensor, nn

from crossbias.networks.network import Network
from crossbias.parameters import Count


class Grayscale(nn.Module):
    """Red, green and blue replaced by their luminance (ITU-R BT.601), in three equal channels."""

    weights: Tensor

    def __init__(self) -> None:
        super().__init__()
        weights = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Gray images of the same shape."""
        return (images * self.weights).sum(1, keepdim=True).expand_as(images)


def gray(*, num_classes: Count, of: str = "lnl-convnet") -> Network:
    """Any network on color images, shown in gray in training and test (Gray of LNL's Table 1).

    The network sees normalized images; with one mean and deviation for all channels their
    luminance is that of the image, normalized.

    Args:
        num_classes: Number of logits.
        of: Name of the network.

    >>> red, green = torch.zeros(2, 1, 3, 8, 8)
    >>> red[:, 0], green[:, 1] = 1.0, 0.299 / 0.587
    >>> network = gray(num_classes=10).eval()
    >>> torch.allclose(network(red).logits, network(green).logits)
    True
    """
    from crossbias.networks.recipe import create_network  # whose table holds this function

    network = create_network(of, num_classes=num_classes, in_channels=3)
    return Network(nn.Sequential(Grayscale(), network.body), network.head)
