"""A trial as a new user would make it: 2,900 photographs, two classes, 90 conflicting for training.

python -m benchmarks.own_trial FOLDER_OF_ALL_DATA --seeds 0

Pullovers and coats of Fashion-MNIST are written as PNG files with a table of labels; a color of two
values is planted, which matches the class in 1,800 of the 1,890 training images and says nothing in
the test split. They are read back with ``crossbias.load``, and every method is trained at its
defaults with the settings that crossbias chooses, on a small network.
"""

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import torch

import crossbias
from benchmarks.measure import keep, seconds
from benchmarks.small_data import COAT, PULLOVER, drawn, network
from crossbias.data import BiasedDataset, plant
from crossbias.data.planting.planting import write_split
from crossbias.defaults import training_for
from crossbias.methods import DFR, ERM, IE, PGD, ClassBalanced, EnD, GroupBalanced
from crossbias.train.method import Method

SIZES = {"train": 945, "validation": 105, "test": 400}  # images of each class
ALIGNED = {"train": 1800 / 1890, "validation": 1800 / 1890, "test": 0.5}
METHODS = (ERM, ClassBalanced, GroupBalanced, DFR, EnD, PGD, IE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with fashion-mnist/")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", default=[kind.name for kind in METHODS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.root)
        where: dict[str, Any] = {"labels": "labels.csv", "target": "target", "bias": "color"}
        splits = {split: crossbias.load(f"folder:{folder}", split, **where) for split in SIZES}
    found: dict[str, list[dict[str, Any]]] = {}
    for kind in METHODS:
        for seed in options.seeds if kind.name in options.methods else ():
            found.setdefault(kind.name, []).append(trained(kind(), splits, seed))
            print(kind.name, seed, found[kind.name][-1], flush=True)
    counts = {split: data.counts().tolist() for split, data in splits.items()}
    keep("own_trial", {"seeds": options.seeds, "counts": counts, "methods": found}, "cpu")


def write(folder: Path, root: Path) -> None:
    """Three splits as PNG files and ``labels.csv``."""
    rows, start = [], 0
    for split, size in SIZES.items():
        images, targets = drawn(
            "fashion-mnist", "train", root, (PULLOVER, COAT), [start + size] * 2
        )
        own = torch.cat(
            [torch.arange(start, start + size) + place * (start + size) for place in (0, 1)]
        )
        data = BiasedDataset(
            inputs=images[own].expand(-1, 3, -1, -1), targets=targets[own], split=split,
            classes=("pullover", "coat"),
        )  # fmt: skip
        rows += write_split(plant(data, bias="color", rho=ALIGNED[split]), folder)
        start += size
    with open(folder / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([["file", "split", "target", "color"], *rows])


def trained(method: Method, splits: dict[str, BiasedDataset], seed: int) -> dict[str, Any]:
    """Accuracies in percent, seconds, and what the run warned about."""
    results: list[crossbias.Result] = []
    shape = splits["train"].inputs.shape[1:]
    fields = training_for(len(splits["train"]), shape, gpu=False, pretrained=False)
    config = crossbias.TrainConfig(**fields, seed=seed, device="cpu")
    torch.manual_seed(seed)  # for the first weights of the network
    options: dict[str, Any] = {"network": network(splits["train"]), "config": config}
    taken = seconds(
        lambda: results.append(
            crossbias.fit(method, splits["train"], splits["validation"], progress=False, **options)
        )
    )
    metrics = results[0].evaluate(splits["test"])["test"]
    assert metrics.conflicting is not None
    parts = {"conflicting": metrics.conflicting, "overall": metrics.overall}
    accuracies = {name: round(100 * part.value, 1) for name, part in parts.items()}
    health = [symptom.name for symptom in results[0].health]
    return {"seed": seed, **accuracies, "seconds": round(taken), "health": health}


if __name__ == "__main__":
    main()
