"""On glyphs colored as LNL's paper colors MNIST, it does what it is for."""

import pytest
import torch
from torch import nn

import crossbias
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.data.generated.glyphs import COLORS
from crossbias.data.generated.strokes import draw
from crossbias.methods import ERM, GRL, LNL, BlindEye, BlindEyeGRL

from .seeds import SEEDS

VARIANCE = 0.02  # of a color around its class's mean, the paper's most biased set
MARGIN = 0.1  # of the conflicting test images, at least, for each of three seeds


def colored_glyphs(size: int, split: str, seed: int) -> BiasedDataset:
    """Section 4.1: black ground, the class's mean color in training and any in the test."""
    generator = torch.Generator().manual_seed(2 * seed + (split == "test"))
    targets = torch.arange(size) % 10
    ink = draw(targets, image_size=12, generator=generator)[:, None].float()
    biases = torch.randint(10, (size,), generator=generator) if split == "test" else targets
    means = torch.tensor(list(COLORS.values()))[biases] / 255
    colors = means + VARIANCE**0.5 * torch.randn(size, 3, generator=generator)
    flat = (255 * colors.clamp(0, 1))[:, :, None, None] * (ink > 128)  # one color, or black
    images = flat.round().to(torch.uint8)
    return BiasedDataset(
        inputs=images,
        targets=targets,
        attributes={"color": biases},
        bias="color",
        split=split,
        values={"color": tuple(COLORS)},
        alignments={"color": torch.eye(10, dtype=torch.bool)},
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
    )


def small_network(seed: int) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [
            *(nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.ReLU()),  # f
            *(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()),
        ]
        return Network(nn.Sequential(*layers), nn.Linear(144, 10))


UNLEARNING = (
    LNL(target="color", lambda_f=0.1, mu=1.0, biased_epochs=2, lr_factor=1.0),
    BlindEye(target="color", lambda_f=4.0, biased_epochs=2, lr_factor=1.0),
    GRL(target="color", mu=1.0, biased_epochs=2, lr_factor=1.0),
    BlindEyeGRL(target="color", lambda_f=0.1, mu=1.0, biased_epochs=2, lr_factor=1.0),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_unlearning_colors_helps_where_plain_training_reads_them(seed):
    """LNL, and the rows of its Table 1."""
    train, test = colored_glyphs(1000, "train", seed), colored_glyphs(1000, "test", seed)
    found = {}
    for method, epochs in (
        (ERM(), 12),  # as many as the two trainings of the others
        *((method, 10) for method in UNLEARNING),
    ):
        config = TrainConfig(
            epochs=epochs, batch_size=50, device="cpu", lr=0.01, schedule="cosine",
            gradient_clip=1.0, seed=seed,
        )  # fmt: skip
        result = crossbias.fit(method, train, network=small_network(seed), config=config)
        found[method.name] = result.evaluate(test)["test"]
    plain = found.pop("erm")
    assert plain.aligned.value > 0.9
    assert plain.conflicting.value < 0.35
    assert len(found) == 4
    for name, metrics in found.items():
        assert metrics.conflicting.value > plain.conflicting.value + MARGIN, name
