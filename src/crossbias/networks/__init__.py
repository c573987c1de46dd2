"""Networks: the papers' small nets, timm's models, and the reader's own split in two."""

from crossbias.networks.network import Network
from crossbias.networks.recipe import NETWORKS, Recipe, create_network
from crossbias.networks.small import (
    convnet,
    convnet_1x1,
    convnet_end,
    mlp,
    simple_convnet_1,
    simple_convnet_2,
)
from crossbias.networks.split import as_network

__all__ = [
    "NETWORKS",
    "Network",
    "Recipe",
    "as_network",
    "convnet",
    "convnet_1x1",
    "convnet_end",
    "create_network",
    "mlp",
    "simple_convnet_1",
    "simple_convnet_2",
]
