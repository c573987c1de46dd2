"""Defaults of PGD and IE on small data: lengths of the biased training, and even shares.

python -m benchmarks.small_data FOLDER_OF_ALL_DATA
"""

import sys
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import crossbias
from benchmarks.measure import keep
from benchmarks.shortcuts import x_rays
from crossbias.data import BiasedDataset, plant
from crossbias.data.generated.originals import load_original
from crossbias.methods import ERM, IE, PGD
from crossbias.seeds import generator_for

EPOCHS, SEED = 20, 0
LENGTHS = (2, 5, 20)  # epochs of the biased training
DRAWS: dict[str, dict[str, Any]] = {
    "by score": {"class_balanced": False, "uniform": 0.0},
    "by score within classes": {"class_balanced": True, "uniform": 0.0},
    "with a uniform share": {"class_balanced": True},
}
PULLOVER, COAT = 2, 4
SEVEN, NINE = 7, 9
PARTS = {"train": "train", "test": "t10k"}  # our names of the splits, and those of the files


def main() -> None:
    root = Path(sys.argv[1])
    torch.set_num_threads(1)
    sets = {
        "Fashion-MNIST, 2,000 images, color": fashion(root),
        "pullover or coat, 1,000 images, 70% pullovers, color": pullovers(root),
        "pullover or coat over 7 or 9, 1,000 images": stacked(root),
        "chest X-rays, watermark": [planted(data, "watermark") for data in x_ray_splits(root)],
        "chest X-rays, their own bias": x_ray_splits(root),
    }
    found = {name: measured(*splits) for name, splits in sets.items()}
    numbers = "conflicting, overall, class average"
    keep("small_data", {"epochs": EPOCHS, "seed": SEED, numbers: found}, "cpu")


def measured(train: BiasedDataset, test: BiasedDataset) -> dict[str, list[float]]:
    """Accuracies in percent: plain training, IE without and with even share, PGD in each way."""
    ways: dict[str, Any] = {"plain": ERM()}
    ways |= {"IE": IE(uniform=0.0), "IE, half shared evenly": IE(uniform=0.5)}
    for (name, draws), length in product(DRAWS.items(), LENGTHS):
        ways[f"PGD {name}, {length} epochs"] = PGD(biased_epochs=length, **draws)
    found = {}
    for name, method in ways.items():
        found[name] = accuracies(method, train, test)
        print(train.name, name, found[name], flush=True)
    return found


def accuracies(method: Any, train: BiasedDataset, test: BiasedDataset) -> list[float]:
    config = crossbias.TrainConfig(epochs=EPOCHS, batch_size=64, seed=SEED, device="cpu")
    options: dict[str, Any] = {"network": network(train), "config": config, "progress": False}
    metrics = crossbias.fit(method, train, **options).evaluate(test)["test"]
    assert metrics.conflicting is not None
    parts = (metrics.conflicting, metrics.overall, metrics.class_averaged)
    return [round(100 * part.value, 1) for part in parts]


def network(train: BiasedDataset) -> nn.Module:
    """Three strided convolutions, for a CPU."""
    layers: list[nn.Module] = []
    before = train.inputs.shape[1]
    for width in (16, 32, 64):
        layers += [nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, train.num_classes)]
    return nn.Sequential(*layers, *pooled)


def fashion(root: Path) -> list[BiasedDataset]:
    """Ten classes, each in a color."""
    return [
        colored(*drawn("fashion-mnist", part, root, range(10), [200] * 10), split)
        for split, part in PARTS.items()
    ]


def pullovers(root: Path) -> list[BiasedDataset]:
    """Two classes of different size, each in a color."""
    sizes = {"train": [700, 300], "test": [900, 900]}
    return [
        colored(*drawn("fashion-mnist", part, root, (PULLOVER, COAT), sizes[split]), split)
        for split, part in PARTS.items()
    ]


def stacked(root: Path) -> list[BiasedDataset]:
    """The class is above, and the bias below is hardly easier to see."""
    found = []
    for (split, part), size, rho in zip(PARTS.items(), (500, 900), (0.95, 0.5), strict=True):
        above, targets = drawn("fashion-mnist", part, root, (PULLOVER, COAT), [size, size])
        digits, values = drawn("mnist", part, root, (SEVEN, NINE), [size, size])
        generator = generator_for(SEED, "stacked", split)
        aligned = torch.rand(len(targets), generator=generator) < rho
        biases = torch.where(aligned, targets, 1 - targets)
        below = torch.empty_like(above)
        for value in (0, 1):
            rows, own = (biases == value).nonzero().squeeze(1), digits[values == value]
            below[rows] = own[torch.arange(len(rows)) % len(own)]
        found.append(
            BiasedDataset(
                inputs=torch.cat([above, below], 2), targets=targets, split=split,
                attributes={"digit": biases}, bias="digit",
                alignments={"digit": torch.eye(2) > 0}, mean=(0.5,), std=(0.25,),
            )
        )  # fmt: skip
    return found


def x_ray_splits(root: Path) -> list[BiasedDataset]:
    """COVID-19 or not, and where the images come from."""
    source = x_rays(root)
    return [source.load(split) for split in PARTS]


def drawn(collection: Any, part: Any, root: Path, classes: Any, sizes: list[int]) -> Any:
    """The first images of some classes, (n, 1, 28, 28), and their new class numbers."""
    original = load_original(collection, part, root=root)
    rows: list[Tensor] = []
    for number, size in zip(classes, sizes, strict=True):
        rows.append((original.labels == number).nonzero().squeeze(1)[:size])
    targets = torch.cat([torch.full_like(own, place) for place, own in enumerate(rows)])
    return original.images[torch.cat(rows)].unsqueeze(1), targets


def colored(images: Tensor, targets: Tensor, split: str) -> BiasedDataset:
    data = BiasedDataset(
        inputs=images.expand(-1, 3, -1, -1), targets=targets, split=split,
        mean=(0.5,) * 3, std=(0.25,) * 3,
    )  # fmt: skip
    return planted(data, "color")


def planted(data: BiasedDataset, cue: Any) -> BiasedDataset:
    """With the cue of the class in 95% of the training images, and useless in the test."""
    rho = 0.95 if data.split == "train" else 1 / data.num_classes
    return plant(data, bias=cue, rho=rho, seed=SEED)


if __name__ == "__main__":
    main()
