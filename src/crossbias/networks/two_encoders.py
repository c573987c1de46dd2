"""Two bodies side by side: one for the class itself, one for the bias."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from crossbias.networks.network import Network, pooled


class TwoEncoders(nn.Module):
    """A body that gives the features of two networks, one after the other.

    Args:
        intrinsic: Its features come first.
        biased: Its features come second.

    Attributes:
        biased_head: A second head on all features, which only the training uses.
    """

    def __init__(self, intrinsic: Network, biased: Network) -> None:
        super().__init__()
        self.intrinsic, self.biased = intrinsic.body, biased.body
        features = intrinsic.num_features + biased.num_features
        self.biased_head = nn.Linear(features, intrinsic.num_classes)

    def forward(self, inputs: Tensor) -> tuple[None, Tensor]:
        """Features (B, 2 D), and no maps."""
        features = [pooled(body(inputs))[1] for body in (self.intrinsic, self.biased)]
        return None, torch.cat(features, 1)


def two_encoders(make: Callable[[], Network]) -> Network:
    """A network with the bodies of two others, and new heads.

    Args:
        make: Makes one of the two.
    """
    intrinsic, biased = make(), make()
    body = TwoEncoders(intrinsic, biased)
    return Network(body, nn.Linear(body.biased_head.in_features, intrinsic.num_classes))
