"""A finished run on a person's own images, with names that Markdown and YAML must escape."""

from pathlib import Path

import pytest
import torch

import crossbias
from crossbias import BiasedDataset

CLASSES = ("none", "a|b: *ill* <i>")
HOSPITALS = ("=north", "south")


def samples(split: str, size: int) -> BiasedDataset:
    """Images whose first channel tells the class and whose second the hospital, some unknown."""
    number = torch.arange(size)
    target, hospital = number % 2, torch.where(number % 5 == 0, 1 - number % 2, number % 2)
    noise = torch.randint(60, (size, 3, 8, 8), generator=torch.Generator().manual_seed(size))
    noise[:, 0] += 40 * target[:, None, None]
    noise[:, 1] += 90 * hospital[:, None, None]
    known = torch.where(number % 11 == 10, -1, hospital)
    return BiasedDataset(
        inputs=noise.to(torch.uint8),
        targets=target,
        attributes={"hospital": known, "id": number // 3 % 2},
        classes=CLASSES,
        values={"hospital": HOSPITALS, "id": ("x", "y")},
        bias="hospital",
        name="folder:/home/somebody/x-rays",
        split=split,
        mean=(0.3, 0.4, 0.5),
        std=(0.2, 0.2, 0.2),
    )


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run; a test that changes files works on a copy."""
    folder = tmp_path_factory.mktemp("documents") / "run"
    result = crossbias.fit(
        crossbias.create("erm"),
        samples("train", 60),
        network=crossbias.Recipe("small-convnet"),
        config=crossbias.TrainConfig(epochs=1, batch_size=20, device="cpu"),
        folder=folder,
    )
    result.evaluate(samples("test", 44))
    result.finish()
    return folder
