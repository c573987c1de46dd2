"""Networks that see only one kind of bias, and whether the images can have that kind."""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.formatting import percent
from crossbias.methods.symptoms import FEWEST_WRONG, TrainingAccuracy, has_learned
from crossbias.networks.trace import first_layer
from crossbias.runs.health import Symptom

_SCENE = "the scene, in clips"

KINDS: Final = {
    "color": "convnet-1x1",
    "texture": "bagnet18",
    _SCENE: "resnet18-2d",
}
"""For each kind of bias that ReBias has been tried on, a network that sees little else."""

# A network that sees only the bias is wrong on nearly all conflicting samples: they show it another
# class. One that is right on more than half sees the class itself, or has learned them by heart.
_SEES_ALL = 0.5

_SAMPLES = 2000  # images whose colors are looked at
_GRAY = 8  # channels of a gray JPEG file may differ by so much of 255
_TELLS = 0.1  # of the way from chance to always right, for color to tell the class


def kinds_in_words() -> str:
    """The kinds and their networks, for messages."""
    return ", ".join(f"{name} for {kind}" for kind, name in KINDS.items())


def biased_network_for(data: BiasedDataset) -> str:
    """A network that sees only the bias: color in images, single frames in clips.

    It is refused where the bias cannot be the color.

    Args:
        data: The training data; a few thousand of its images are looked at, its bias labels not.
    """
    if data.inputs.ndim == 5:
        return KINDS[_SCENE]
    reason = _why_not_color(data)
    if reason:
        raise CrossbiasError(
            f"the method needs a network that sees only the bias, and none was chosen: {reason}. "
            f"Name one with biased=NAME: {kinds_in_words()}, or your own, as my_module:my_network"
        )
    return KINDS["color"]


def named_or_chosen(biased: str | None, data: BiasedDataset) -> str:
    """The biased network that is named, or the one for the data if none is.

    Args:
        biased: Its name, if there is one.
        data: The training data.
    """
    if biased == "":
        raise CrossbiasError("biased names no network; name one, as 'convnet-1x1', or leave it out")
    return biased_network_for(data) if biased is None else biased


def check_biased_network(name: str, network: nn.Module, data: BiasedDataset) -> None:
    """Refuse a network with other classes, or one for images where the samples are clips.

    Args:
        name: Name of the network.
        network: The network, built.
        data: The training data.
    """
    if data.inputs.ndim == 5 and isinstance(first_layer(network), nn.Conv2d):
        raise CrossbiasError(
            f"the biased network {name!r} takes images, but the samples of {data.name} are clips; "
            f"leave biased out for {KINDS[_SCENE]!r}, which sees single frames"
        )
    if network.num_classes != data.num_classes:
        raise CrossbiasError(
            f"the biased network {name!r} has {network.num_classes} logits, but {data.name} has "
            f"{data.num_classes} classes; build it with num_classes={data.num_classes}"
        )


def kind_symptoms(
    name: str, accuracy: TrainingAccuracy, data: BiasedDataset, *, use: str
) -> Iterator[Symptom]:
    """Whether a biased network sees nothing of the bias, or more than the bias.

    Args:
        name: Name of the biased network.
        accuracy: Its accuracy.
        data: What it was trained on.
        use: What the method does with it, as "being independent of it".
    """
    overall, _, conflicting = accuracy
    if not has_learned(overall, data):
        yield Symptom(
            "biased network sees nothing",
            f"The biased network {name} is right on {percent(overall)} of the training samples, "
            f"hardly better than chance: it does not see the bias, and {use} changes nothing.",
            f"Choose a network for the kind of bias with biased: {kinds_in_words()}.",
        )
    elif overall > 1 - FEWEST_WRONG if conflicting is None else conflicting > _SEES_ALL:
        right, which = (overall, "") if conflicting is None else (conflicting, " conflicting")
        yield Symptom(
            "biased network sees everything",
            f"The biased network {name} is right on {percent(right)} of the{which} training "
            f"samples: it sees more than the bias, and {use} costs the task.",
            f"Choose a network that sees less with biased: {kinds_in_words()}.",
        )


def _why_not_color(data: BiasedDataset) -> str:
    if data.inputs.ndim != 4:
        return f"the inputs of {data.name} are no images"
    count = min(_SAMPLES, len(data))
    rows = torch.linspace(0, len(data) - 1, count).long()
    images = data.pictures(rows)
    if (images.int() - images[:, :1].int()).abs().max() <= _GRAY:
        return f"the images of {data.name} are gray"
    accuracy = accuracy_by_color(images, data.targets[rows])
    chance = 1 / int((data.targets[rows].bincount() > 0).sum())
    if accuracy < chance + _TELLS * (1 - chance):
        return (
            f"the color of the images of {data.name} does not tell their class "
            f"({percent(accuracy)} right, {percent(chance)} by chance), so the bias is another kind"
        )
    return ""


def accuracy_by_color(images: Tensor, targets: Tensor) -> float:
    """How often the class with the nearest mean color is the right one, averaged over classes.

    Args:
        images: ``(n, C, H, W)`` uint8.
        targets: ``(n,)`` class numbers.

    >>> images = torch.tensor([0, 0, 9, 9], dtype=torch.uint8).view(4, 1, 1, 1)
    >>> accuracy_by_color(images, torch.tensor([0, 0, 1, 1]))
    1.0
    """
    colors = images.float().mean((2, 3))  # (n, C)
    present = targets.bincount().nonzero().squeeze(1)
    centers = torch.stack([colors[targets == number].mean(0) for number in present])
    right = present[torch.cdist(colors, centers).argmin(1)] == targets
    return float(
        torch.stack([right[targets == number].float().mean() for number in present]).mean()
    )
