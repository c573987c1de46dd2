"""How images are normalized for a network that is judged: as in its training, or as chosen."""

from typing import Literal

from torch import nn

from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.decoding import IMAGENET_MEAN, IMAGENET_STD
from crossbias.errors import CrossbiasError
from crossbias.networks.network import Normalization

Normalize = Literal["bytes", "data", "imagenet", "none"] | Normalization
"""The choices of ``crossbias.evaluate``."""

_NONE: Normalization = ((0.0,), (1.0,))
_CHOICES = (
    "normalize='none' (images in [0, 1]), 'bytes' (0 to 255), 'data' (mean and std of the data "
    "set), 'imagenet' or (mean, std)"
)


def normalization_for(
    network: nn.Module, data: BiasedDataset, chosen: Normalize | None
) -> Normalization:
    """Mean and standard deviation of images in [0, 1]; an error where nobody knows them.

    Args:
        network: The network; one that crossbias trained knows its own normalization.
        data: The images.
        chosen: The caller's choice; None for that of the training.
    """
    if chosen is None:
        return _known(network, data)
    gray = data.inputs.shape[1] == 1
    imagenet = (IMAGENET_MEAN, IMAGENET_STD)
    named: dict[object, Normalization] = {
        "data": (data.mean, data.std),
        "imagenet": ((sum(IMAGENET_MEAN) / 3,), (sum(IMAGENET_STD) / 3,)) if gray else imagenet,
        "none": _NONE,
        "bytes": ((0.0,), (1 / 255,)),
    }
    return named[chosen] if isinstance(chosen, str) and chosen in named else _given(chosen, data)


def _known(network: nn.Module, data: BiasedDataset) -> Normalization:
    """The normalization of the training, or the one that the data set was given in Python."""
    trained: Normalization | None = getattr(network, "normalization", None)
    own = (data.mean, data.std)
    given = own != _NONE and not data.origin  # a named source sets it without being asked
    if trained is None and not given:
        what = getattr(network, "name", f"this {type(network).__name__}")
        raise CrossbiasError(
            f"crossbias did not train {what} and does not know how its training normalized images "
            f"such as those of {data.name}; pass {_CHOICES}"
        )
    return trained or own


def _given(chosen: object, data: BiasedDataset) -> Normalization:
    """Two sequences of numbers, checked."""
    try:
        mean, std = (tuple(map(float, part)) for part in chosen)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise CrossbiasError(f"normalize is {chosen!r}; pass {_CHOICES}") from None
    channels = data.inputs.shape[1]
    if {len(mean), len(std)} - {1, channels} or min(std) <= 0:
        raise CrossbiasError(
            f"normalize has the mean {mean} and the standard deviation {std}, but the images of "
            f"{data.name} have {channels} channels; pass one number for each channel, std above 0"
        )
    return mean, std
