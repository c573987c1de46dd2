"""LNL's settings, judged by images that are not for testing: what h sees, mu, and the rate of h.

The last 10,000 training digits are not trained on but colored again as the test images are, any
of the ten mean colors in every class. On them a setting is measured after the last epoch, for one
seed of the training. The settings are those of recipes/colored-mnist-lnl-lnl.toml, but for 20
epochs of plain training and 60 of LNL. Accuracies in %, with the course by epoch. The authors' h
sees positions; they have mu = .1 and one rate for all, a factor of 1. Needs CROSSBIAS_DATA.

    python -m benchmarks.lnl_search [cpu | cuda] [position | image] MU FACTOR SEED
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

import torch

import crossbias
from benchmarks.lnl_leftover import Course, lnl, recipe_config
from benchmarks.measure import device_named, keep
from crossbias import BiasedDataset
from crossbias.data import load
from crossbias.data.assignment import biased_values, normal_in_unit
from crossbias.data.generated.coloring import PGD, color_foreground, colors
from crossbias.data.generated.originals import load_original

SIGMA2 = 0.02
TRAINED = 50_000  # of the training digits
EPOCHS = {"biased": 20, "lnl": 60}


def recolored(data: BiasedDataset) -> BiasedDataset:
    """The digits that are not trained on, each in any color."""
    digits = load_original("mnist", "train", root=Path(os.environ["CROSSBIAS_DATA"])).images
    held = data.subset(torch.arange(TRAINED, len(data)))
    generator = torch.Generator().manual_seed(0)
    biases = biased_values(held.targets, values=len(PGD), rho=1 / len(PGD), generator=generator)
    shades = normal_in_unit(colors(PGD)[biases] / 255.0, deviation=SIGMA2**0.5, generator=generator)
    images = color_foreground(digits[TRAINED:], shades)
    return replace(held, inputs=images, attributes={"color": biases})


def main() -> None:
    if len(sys.argv) != 6:
        sys.exit("name the device, h's view, mu, the factor of h's learning rate and the seed")
    view, seed = sys.argv[2], int(sys.argv[5])
    mu, factor = float(sys.argv[3]), float(sys.argv[4])
    data = load("colored-mnist-lnl", "train", sigma2=SIGMA2)
    config = recipe_config(EPOCHS["lnl"], device_named(), interval=5, seed=seed)
    method = lnl(view, mu, factor, biased_epochs=EPOCHS["biased"])
    course = Course()
    crossbias.fit(
        method,
        data.subset(torch.arange(TRAINED)),
        validation=recolored(data),
        network="lnl-convnet",
        config=config,
        progress=course,
    )
    found = {"accuracy": course.epochs[-1]["accuracy"], "course": course.epochs}
    keep("lnl_search", found, device_named(), part=f"{view}-{mu:g}-{factor:g}-{seed}")


if __name__ == "__main__":
    main()
