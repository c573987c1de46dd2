"""Whether a network has been trained, and new random weights for one that has not."""

import math
from collections.abc import Iterable
from typing import NamedTuple

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
    """Give a network new random weights from torch's global generator, in place.

    A network that has not been trained keeps the way in which it was initialized, but nothing of
    the draw: a tensor whose weights have the size of a usual initialization is drawn from that.
    Constant tensors stay. Where the initialization is not a usual one, entries are shuffled,
    which is another draw of the same distribution. Parameters that belong to no standard layer,
    such as embeddings of positions, stay as they are.

    The layers of a trained network are reset by their own ``reset_parameters``.

    >>> first, second = nn.Linear(8, 4), nn.Linear(8, 4)
    >>> for layer in (first, second):
    ...     _ = torch.manual_seed(0)
    ...     redraw(layer)
    >>> torch.equal(first.weight, second.weight)
    True
    """
    trained = looks_trained(network)
    for module in network.modules():
        reset = getattr(module, "reset_parameters", None)
        if reset is None:
            continue
        if trained:
            reset()
            continue
        usual = _usual_initializations(module)
        for parameter in module.parameters(recurse=False):
            own = usual if parameter.ndim > 1 else _Usual(usual.uniform[:1])
            parameter.data = _drawn_like(parameter.data, own)


class _Usual(NamedTuple):
    """Standard deviations of usual initializations, the most frequent first.

    Two draws of one initialization must be recognized as the same one, so the first that fits is
    taken, not the nearest.
    """

    uniform: tuple[float, ...] = ()
    normal: tuple[float, ...] = ()


def _usual_initializations(layer: nn.Module) -> _Usual:
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        return _Usual()
    inputs, outputs = weight[0].numel(), weight[:, 0].numel()
    each = outputs / getattr(layer, "groups", 1)  # outputs that an input reaches
    glorot = 2 / (inputs + outputs)
    # torch's own, which its biases have too; EfficientNet's classifiers; Kaiming's; Glorot's
    uniform = (1 / (3 * inputs), 1 / (3 * outputs), 2 / inputs, glorot)
    # Kaiming's by outputs, without and with groups, and by inputs; Glorot's; transformers';
    # classifiers'; embeddings'
    normal = (2 / outputs, 2 / each, 2 / inputs, glorot, 0.02**2, 0.01**2, 1.0)
    return _Usual(*(tuple(map(math.sqrt, variances)) for variances in (uniform, normal)))


def _drawn_like(given: Tensor, usual: _Usual) -> Tensor:
    """Another draw of the same distribution, as far as it can be told from one draw."""
    flat = given.flatten()
    if bool((flat == flat[0]).all()):
        return given
    size, largest = float(flat.double().square().mean().sqrt()), float(flat.abs().max())
    # Five standard errors of the logarithm of a normal sample's size.
    tolerance = 5 * math.sqrt(0.5 / len(flat))

    def first_near(scales: Iterable[float]) -> float | None:
        return next((s for s in scales if abs(math.log(size / s)) < tolerance), None)

    bounds = (scale for scale in usual.uniform if largest <= math.sqrt(3) * scale * (1 + 1e-6))
    if (scale := first_near(bounds)) is not None:
        drawn = (2 * torch.rand(given.shape) - 1) * math.sqrt(3) * scale
    elif (scale := first_near(usual.normal)) is not None:
        drawn = torch.randn(given.shape) * scale
    else:
        drawn = flat[torch.randperm(len(flat)).to(flat.device)].view_as(given)
    return drawn.to(given)


def _has_moved(layer: nn.Module) -> bool:
    tensors = layer.state_dict()
    seen = tensors.pop("num_batches_tracked", torch.tensor(0))
    return bool(seen > 0) or any(bool((t != t.flatten()[0]).any()) for t in tensors.values())


def _is_within_default_bounds(weight: Tensor) -> bool:
    """Whether all entries lie within 1 / sqrt(fan in), where torch draws them uniformly."""
    bound = 1 / math.sqrt(weight[0].numel())
    return bool(weight.abs().max() <= bound * (1 + 1e-6))
