"""A network that is trained briefly and trusts what is easy, whose mistakes are the suspects."""

from typing import Final

import torch
import torch.nn.functional as F

from crossbias.audit.suspects import Suspects, suspects_of
from crossbias.data.dataset import BiasedDataset
from crossbias.methods.pgd import BiasedERM
from crossbias.networks import Recipe
from crossbias.seeds import seed_for
from crossbias.train.config import TrainConfig
from crossbias.train.fit import fit
from crossbias.train.progress import Progress
from crossbias.verify.predict import predict

SIDE: Final = 32
"""Larger images are shrunk to this side: a shortcut that is learned first is still there."""

STEPS: Final = 150
"""Updates: enough for what is easy, too few for exceptions."""
_BATCH: Final = 64


def find_suspects(
    data: BiasedDataset, *, seed: int, device: str = "auto", progress: Progress | None = None
) -> Suspects:
    """Train a small network with generalized cross-entropy, briefly, and look at its mistakes.

    Args:
        data: Images; those larger than ``SIDE`` are shrunk.
        seed: Of the training.
        device: As in ``TrainConfig``.
        progress: Who hears about it.
    """
    small = _shrunk(data)
    config = TrainConfig(
        steps=STEPS, batch_size=min(_BATCH, len(data)), lr=0.003, device=device,
        seed=seed_for(seed, "suspects") % 2**32, augment=(),
    )  # fmt: skip
    network = fit(
        BiasedERM(), small, network=Recipe("simple-convnet-1", {"dropout": 0.0}), config=config,
        progress=progress,
    ).network  # fmt: skip
    return suspects_of(predict(network, small).probabilities, data)


def _shrunk(data: BiasedDataset) -> BiasedDataset:
    """The data with small images, normalized by their own mean and deviation."""
    height, width = data.inputs.shape[2:]
    size = (min(height, SIDE), min(width, SIDE))
    parts = [
        F.adaptive_avg_pool2d(chunk.float(), size).round().to(torch.uint8)
        for chunk in data.inputs.split(256)  # type: ignore[no-untyped-call]
    ]
    images = torch.cat(parts)
    channels = images.transpose(0, 1).flatten(1).float() / 255
    deviation, mean = torch.std_mean(channels, 1)
    return BiasedDataset(
        inputs=images, targets=data.targets, name=data.name, split=data.split,
        classes=data.classes, mean=tuple(mean.tolist()),
        std=tuple(deviation.clamp(min=1e-3).tolist()),
    )  # fmt: skip
