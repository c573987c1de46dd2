"""EnD on Biased MNIST as its authors' seed colors it.

The authors' single run (77.95% unbiased) has the colors that NumPy's generator gives from seed 42.
This program draws the same 184 conflicting images and trains on them with the settings of
recipes/biased-mnist-end.toml, except for the alpha and beta of that run, .1 and .1. Test images are
those of the recipe. Needs CROSSBIAS_DATA.

    python -m benchmarks.end_coloring [cpu | cuda]
"""

import math
import tomllib
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

import crossbias
from benchmarks.measure import device_named, keep
from benchmarks.reproduce import RECIPES
from crossbias import BiasedDataset, TrainConfig, load
from crossbias.data.generated.coloring import REBIAS, color_background, colors
from crossbias.methods import EnD
from crossbias.progress import Progress

SEED = 42


class Accuracies(Progress):
    """Keeps and prints the unbiased validation accuracy of every epoch that has one."""

    def __init__(self) -> None:
        self.found: dict[int, float] = {}

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Keep it."""
        if record["validation"]:
            self.found[record["epoch"]] = round(100 * record["validation"]["unbiased"], 2)
            print(record["epoch"], self.found[record["epoch"]], flush=True)


def authors_colors(targets: Tensor, rho: float) -> Tensor:
    """Number of each image's color, drawn in the order of the authors' code."""
    random = np.random.RandomState(SEED)
    biases = targets.clone()
    for target in range(len(REBIAS)):
        rows = (targets == target).nonzero().squeeze(1).numpy()
        random.shuffle(rows)
        others = [(target + step) % len(REBIAS) for step in range(1, len(REBIAS))]
        random.shuffle(others)
        conflicting = rows[int(len(rows) * rho) :]
        size = math.ceil(len(conflicting) / len(others))
        for number, row in enumerate(conflicting):
            biases[row] = others[number // size]
    return biases


def recolored(data: BiasedDataset, rho: float) -> BiasedDataset:
    """The same digits in the authors' colors."""
    assert data.bias
    biases = authors_colors(data.targets, rho)
    white = (data.inputs == 255).all(1)  # the digits; no color of the palette is white
    images = color_background(white * 255, colors(REBIAS)[biases])
    return replace(data, inputs=images, attributes={**data.attributes, data.bias: biases})


def main() -> None:
    device = device_named()
    recipe = tomllib.loads((RECIPES / "biased-mnist-end.toml").read_text())
    rho, network = recipe["data"]["rho"], recipe["network"]["name"]
    splits = {
        name: load("biased-mnist", name, rho=rho)
        for name in ("train", "validation", "test", "test-biased")
    }
    train = recolored(splits["train"], rho)
    progress = Accuracies()
    result = crossbias.fit(
        EnD(alpha=0.1, beta=0.1, variant=recipe["method"]["variant"]),
        train,
        validation=splits["validation"],
        network=network,
        config=TrainConfig(**recipe["train"] | {"device": device}),
        progress=progress,
    )
    scores = result.evaluate(splits["test"], splits["test-biased"])
    found = {name: round(100 * score.overall.value, 2) for name, score in scores.items()}
    conflicting = int((train.biases != train.targets).sum())
    keep(
        "end_coloring",
        found | {"conflicting training images": conflicting, "validation": progress.found},
        device,
    )


if __name__ == "__main__":
    main()
