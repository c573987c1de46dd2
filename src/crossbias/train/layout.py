"""The layout of maps in memory: channels last where that is faster and a network allows it."""

from collections.abc import Sequence

import torch
from torch import nn

from crossbias.networks.network import Network

# On a CPU, convolutions of one pixel with more channels than this, and grouped ones, take up to
# half the time with channels last (benchmarks/layouts.py). The networks of the papers have none.
_FEW_CHANNELS = 64


def settle_layout(network: nn.Module, device: torch.device, shape: Sequence[int]) -> None:
    """Put the weights of a network channels last, so that its maps are too, or leave them.

    A network whose forward needs channels first, such as one that calls ``view`` on its maps,
    keeps them.

    Args:
        network: On its device.
        device: That device.
        shape: Shape of one sample.
    """
    if not _gains(network, device):
        return
    network.to(memory_format=torch.channels_last)
    if isinstance(network, Network) and not _runs(network, device, shape):
        network.to(memory_format=torch.contiguous_format)


def _gains(network: nn.Module, device: torch.device) -> bool:
    if any(parameter.ndim == 5 for parameter in network.parameters()):  # of clips
        return False
    if device.type != "cpu":
        return device.type == "cuda"
    return any(
        layer.groups > 1 or (max(layer.kernel_size) == 1 and layer.in_channels > _FEW_CHANNELS)
        for layer in network.modules()
        if isinstance(layer, nn.Conv2d)
    )


def _runs(network: Network, device: torch.device, shape: Sequence[int]) -> bool:
    """Whether a pass in evaluation mode succeeds; nothing in the network changes."""
    modes = {module: module.training for module in network.modules()}
    try:
        with torch.no_grad():
            network.eval()(torch.zeros(2, *shape, device=device))
    except Exception:  # a stranger's network may raise anything
        return False
    finally:
        for module, mode in modes.items():
            module.training = mode
    return True
