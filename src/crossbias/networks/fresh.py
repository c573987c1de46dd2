"""Whether a network has been trained, and new random weights for one that has not."""

import math

import torch
from torch import Tensor, nn

_NORMALIZATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
_PRODUCTS = (nn.Linear, nn.modules.conv._ConvNd)


def looks_trained(network: nn.Module) -> bool:
    """Whether the weights of a network show that it has been trained.

    Training moves the weights, biases and statistics of normalization layers, which all start
    constant. A network without such layers counts as not trained where every weight of its
    linear layers and convolutions lies within the bounds of torch's own initialization; with
    another initialization nothing can be known, and it counts as trained.

    >>> network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    >>> looks_trained(network)
    False
    >>> _ = network(torch.rand(2, 3, 8, 8))
    >>> looks_trained(network)
    True
    """
    layers = [module for module in network.modules() if isinstance(module, _NORMALIZATIONS)]
    if layers:
        return any(_has_moved(layer) for layer in layers)
    products = [module for module in network.modules() if isinstance(module, _PRODUCTS)]
    return not all(_is_within_default_bounds(layer.weight) for layer in products)


def redraw(network: nn.Module) -> None:
    """Give a network that has not been trained new random weights, in place.

    The initial weights of a layer are independent draws from one distribution, whichever it is,
    so shuffling the entries of a tensor is another draw from the same distribution. Unlike
    ``reset_parameters`` this keeps a network's own initialization. Parameters that belong to no
    standard layer, such as embeddings of positions, stay as they are.

    The order comes from torch's global generator.
    """
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            for parameter in module.parameters(recurse=False):
                order = torch.randperm(parameter.numel()).to(parameter.device)
                parameter.data = parameter.data.flatten()[order].view_as(parameter)


def _has_moved(layer: nn.Module) -> bool:
    tensors = layer.state_dict()
    seen = tensors.pop("num_batches_tracked", torch.tensor(0))
    return bool(seen > 0) or any(bool((t != t.flatten()[0]).any()) for t in tensors.values())


def _is_within_default_bounds(weight: Tensor) -> bool:
    """Whether all entries lie within 1 / sqrt(fan in), where torch draws them uniformly."""
    bound = 1 / math.sqrt(weight[0].numel())
    return bool(weight.abs().max() <= bound * (1 + 1e-6))
