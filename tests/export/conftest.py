"""Trained models without a training: a network with random weights and the record of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import crossbias
from crossbias import TrainedRun

MEAN, STD = (0.3, 0.4, 0.5), (0.2, 0.25, 0.3)


def config_of(network: str, shape: tuple[int, ...], crop: int = 0) -> dict[str, Any]:
    """The parts of ``config.json`` that an export reads."""
    return {
        "version": "0.1.0",
        "method": {"name": "erm"},
        "network": {"name": network},
        "data": {
            "name": "folder:/home/somebody/birds",
            "bias": None,
            "fit": "squash",
            "depth": None,
            "hashes": {"train": "0123"},
            "shape": list(shape),
            "classes": ["duck", "gull", "crow, hooded"],
            "values": {},
            "aligned": {},
            "pixels": {"crop": crop, "mean": list(MEAN), "std": list(STD)},
        },
    }


@pytest.fixture(scope="session")
def trained() -> Callable[..., TrainedRun]:
    """Make the model of a run by the name of its network."""

    def made(network: str, shape: tuple[int, ...], crop: int = 0) -> TrainedRun:
        seen = (*shape[:-2], crop, crop) if crop else shape
        with torch.random.fork_rng():
            torch.manual_seed(0)
            built = crossbias.Recipe(network).build(num_classes=3, shape=seen)
            for module in built.modules():  # statistics as after some training
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    module.running_mean.normal_(std=0.1)
                    module.running_var.uniform_(0.5, 1.5)
        return TrainedRun(Path("run"), built.eval(), config_of(network, shape, crop))

    return made
