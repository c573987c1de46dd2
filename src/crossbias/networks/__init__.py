"""Networks: the papers' small nets, timm's models, and the reader's own split in two."""

from crossbias.networks.bagnet import bagnet18, bagnet18_released
from crossbias.networks.network import Network
from crossbias.networks.papers import (
    convnet,
    convnet_1x1,
    convnet_end,
    linear,
    lnl_convnet,
    mlp,
    mlp_first,
    simple_convnet_1,
    simple_convnet_2,
    small_convnet,
)
from crossbias.networks.recipe import NETWORKS, Recipe, create_network
from crossbias.networks.split import as_network
from crossbias.networks.video import resnet18_2d, resnet18_3d

__all__ = [
    "NETWORKS",
    "Network",
    "Recipe",
    "as_network",
    "bagnet18",
    "bagnet18_released",
    "convnet",
    "convnet_1x1",
    "convnet_end",
    "create_network",
    "linear",
    "lnl_convnet",
    "mlp",
    "mlp_first",
    "resnet18_2d",
    "resnet18_3d",
    "simple_convnet_1",
    "simple_convnet_2",
    "small_convnet",
]
