"""How the answers of a network change when only one cue of the image is changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple, get_args

import torch
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.data.planting.planted_cues import MOST_VALUES, TILE, plant_values
from crossbias.data.planting.planted_cues import PlantedCue as Planted
from crossbias.seeds import generator_for
from crossbias.train.evaluation import predict
from crossbias.verify import Estimate
from crossbias.verify.clusters import share_of

SAMPLES: Final = 256  # number of images that are changed, drawn at random


class Flips(NamedTuple):
    """How many answers change with a cue."""

    change: str  # its name
    what: str  # the same in words, after "when"
    rate: Estimate


def flip_rates(network: nn.Module, data: BiasedDataset, *, seed: int) -> list[Flips]:
    """How often the answer changes with each cue; nothing for inputs that are not images.

    Each image is compared with itself under two values of the same planted cue, so that only the
    value differs, not the presence of the cue.
    """
    if data.inputs.ndim != 4:
        return []
    order = torch.randperm(len(data), generator=generator_for(seed, "flips"))
    some = data.subset(order[:SAMPLES].sort().values)
    found = [_planted(network, some, cue, seed) for cue in _plantable(some)]
    before = _answers(network, some, some.inputs)
    for change, (what, function, channels) in _REMOVALS.items():
        if some.inputs.shape[1] in channels:
            after = _answers(network, some, function(some.inputs))
            found.append(Flips(change, what, _rate(before, after, some)))
    return found


def gray(images: Tensor) -> Tensor:
    """The same images in gray: every channel is the mean of all."""
    mean = images.float().mean(1, keepdim=True).round()
    return mean.to(torch.uint8).expand_as(images)


def without_border(images: Tensor) -> Tensor:
    """The same images, with the outer sixteenth of each side covered by what is just inside it."""
    height, width = images.shape[2:]
    rows, columns = (
        torch.arange(size).clamp(size // 16, size - 1 - size // 16) for size in (height, width)
    )
    return images[:, :, rows][..., columns]


_REMOVALS: dict[str, tuple[str, Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "color removed": ("the color of every pixel is removed", gray, (3,)),
    "border covered": ("the outer sixteenth of each side is covered", without_border, (1, 2, 3, 4)),
}


def _plantable(data: BiasedDataset) -> list[Planted]:
    fits = min(data.inputs.shape[2:]) >= TILE and 2 <= data.num_classes <= MOST_VALUES
    cues: list[Planted] = list(get_args(Planted)) if fits else []
    return [cue for cue in cues if cue != "color" or data.inputs.shape[1] == 3]


def _planted(network: nn.Module, data: BiasedDataset, cue: Planted, seed: int) -> Flips:
    count, generator = data.num_classes, generator_for(seed, "flips", cue)
    values = torch.randint(count, (len(data),), generator=generator)
    others = (values + torch.randint(1, count, (len(data),), generator=generator)) % count
    before, after = (
        _answers(network, data, plant_values(data.inputs, v, bias=cue, num_values=count))
        for v in (values, others)
    )
    return Flips(f"{cue} changed", f"only a planted {cue} is changed", _rate(before, after, data))


def _answers(network: nn.Module, data: BiasedDataset, inputs: Tensor) -> Tensor:
    return predict(network, replace(data, inputs=inputs)).answers


def _rate(before: Tensor, after: Tensor, data: BiasedDataset) -> Estimate:
    return share_of(before != after, data.cluster)
