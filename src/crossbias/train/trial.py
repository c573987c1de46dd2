"""A trial of the network on a few samples, before anything is trained or written."""

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.networks.network import Network
from crossbias.networks.recipe import Recipe
from crossbias.networks.trace import first_layer, first_line, other_types
from crossbias.seeds import global_randomness_kept

if TYPE_CHECKING:
    from crossbias.train.run import Run

_SAMPLES = 2  # batch normalization needs as many
_CLASSES = 6  # at most this many are named in a message


def check_network(run: "Run") -> None:
    """Refuse a network that does not fit the run's data.

    A network of the run's own makes one forward and one backward pass over a few training samples
    and is thrown away. Random generators, weights and statistics stay as they were.

    Raises:
        CrossbiasError: The number of logits is not that of the classes, or a pass fails.
    """
    with global_randomness_kept(run.device):
        network = run.make_network().to(run.device).train()
        _check_logits(network, run.data)
        if network.note:
            run.progress.note(network.note)
        rows = torch.arange(_SAMPLES) % len(run.data)
        fetched, target = (part[rows].to(run.device) for part in (run.data.index, run.data.targets))
        inputs = run.loader(run.data).fetch(fetched, augment=run.augmentation(), seed=run.seed())
        try:
            with run.devices.autocast():
                loss = F.cross_entropy(network(inputs).logits, target)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
        except (CrossbiasError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a stranger's network may raise anything
            raise _unfit(run, network, inputs, error) from error


def _unfit(run: "Run", network: Network, inputs: Tensor, error: Exception) -> CrossbiasError:
    kind = type(getattr(network.body, "model", network.body)).__name__
    name = run.network.name if isinstance(run.network, Recipe) else kind
    size = "x".join(map(str, inputs.shape[1:]))
    return CrossbiasError(
        f"network {name!r} does not fit the data: inputs of {size} fail "
        f"({type(error).__name__}: {first_line(error)}); {_remedy(network, inputs)}"
    )


def _check_logits(network: Network, data: BiasedDataset) -> None:
    if network.num_classes == data.num_classes:
        return
    more = ", ..." if data.num_classes > _CLASSES else ""
    raise CrossbiasError(
        f"the network has {network.num_classes} logits, but {data.name!r} has {data.num_classes} "
        f"classes ({', '.join(data.classes[:_CLASSES])}{more}); build it with "
        f"num_classes={data.num_classes}, or replace its last layer with "
        f"nn.Linear({network.num_features}, {data.num_classes})"
    )


def _remedy(network: Network, inputs: Tensor) -> str:
    """What to change, by the first difference that is found."""
    if other := other_types(network):
        return other
    first, channels, numbers = first_layer(network), inputs.shape[1], math.prod(inputs.shape[1:])
    if isinstance(first, nn.Linear) and first.in_features not in (channels, numbers):
        return f"its first layer takes {first.in_features} numbers, but an input has {numbers}"
    if isinstance(first, nn.modules.conv._ConvNd):
        if inputs.ndim == 2:
            return "it takes images, but the inputs are vectors: use 'mlp'"
        if first.in_channels != channels:
            folder = f"--set data.channels={first.in_channels} for a folder of images, or "
            return (
                f"it takes {first.in_channels} channels, but the images have {channels}: use "
                f"{folder if first.in_channels in (1, 3) else ''}a network that takes {channels}, "
                f"such as timm's resnet18"
            )
    size = _own_size(network)
    return (
        f"use images of another size (--set data.size={size or 224} for a folder of images), or a "
        f"network for images of this size; timm's transformers take --set "
        f"network.img_size={inputs.shape[-1]}"
    )


def _own_size(network: Network) -> int | None:
    """The size of the images that a model of timm was made for."""
    configs = [getattr(module, "pretrained_cfg", None) for module in network.modules()]
    sizes = [config["input_size"] for config in configs if config and config.get("input_size")]
    return int(sizes[0][-1]) if sizes else None
