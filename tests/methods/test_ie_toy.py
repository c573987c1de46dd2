"""IE on the kind of shortcut it is about: right where plain training is wrong."""

import pytest
import torch
from torch import nn

import crossbias
from crossbias import Network, TrainConfig, load
from crossbias.methods import ERM, IE

from .seeds import SEEDS

MARGIN = 0.15  # of the conflicting test images, at least, for each seed
DATA = {"size": 600, "rho": 0.9, "image_size": 16, "test_size": 500}


def small_network() -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48), nn.ReLU(),
        )  # fmt: skip
        return Network(body, nn.Linear(48, 10))


@pytest.mark.parametrize("seed", SEEDS)
def test_ie_is_right_on_more_conflicting_images_than_plain_training(seed):
    """Ten epochs are short: the lengths of the paper are stretched to them."""
    config = TrainConfig(
        epochs=10, batch_size=50, lr=0.003, schedule="milestones", milestones=(0.75,),
        device="cpu", seed=seed,
    )  # fmt: skip
    ie = IE(members=3, ensemble_length=30, reference_start=0.1, guidance_start=0.3)
    train, test = (load("glyphs", split, seed=seed, **DATA) for split in ("train", "test"))
    found = [
        crossbias.fit(method, train, network=small_network(), config=config).evaluate(test)["test"]
        for method in (ERM(), ie)
    ]
    plain, guided = found
    assert plain.aligned.value > 0.95
    assert guided.aligned.value > 0.8  # 50 images
    assert guided.conflicting.value > plain.conflicting.value + MARGIN
