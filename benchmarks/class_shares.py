"""PGD draws classes evenly: what that costs where the data does not have them evenly.

python -m benchmarks.class_shares FOLDER_OF_ALL_DATA

Trains on those sets of ``benchmarks.small_data`` whose classes differ in size, with the network
and the settings of ``benchmarks.biased_length``: PGD as it is; PGD whose loss takes into account
that classes are drawn evenly, so that answers follow the classes of the data; and PGD whose draws
have each class as often as the data.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.biased_length import EPOCHS, accuracies, fitted
from benchmarks.measure import keep
from benchmarks.small_data import planted, pullovers, x_ray_splits
from crossbias.methods import ERM, PGD
from crossbias.methods.erm import BiasedERM
from crossbias.methods.first_training import first_length
from crossbias.methods.scores import head_norm
from crossbias.networks.network import Network
from crossbias.train.method import Method
from crossbias.types import Batch, Losses

PART = 1 / 4  # of the training is biased, as PGD has it


@dataclass(kw_only=True)
class Adjusted(ERM):
    """Plain training on even draws that answers for the classes of the data.

    The share of a class in the draws over its share in the data is added to the logits, in
    logarithms, and in training only (logit adjustment, Menon et al., ICLR 2021).
    """

    def setup(self, run: Any) -> None:
        """Count the classes."""
        super().setup(run)
        shares = run.data.targets.bincount(minlength=run.data.num_classes) / len(run.data)
        self.shift: Tensor = -(shares * run.data.num_classes).log()

    def loss(self, batch: Batch) -> Losses:
        """Mean cross-entropy of the adjusted logits."""
        logits = self.network(batch.inputs).logits
        return {"loss": F.cross_entropy(logits + self.shift, batch.target)}


@dataclass(kw_only=True)
class Corrected(PGD):
    """PGD that answers for the classes of the data, although its draws are even."""

    def fit(self, run: Any) -> Network:
        """As PGD, with another loss at the end."""
        epochs, steps = first_length(run.config, run.steps, part=PART)
        biased = run.train(BiasedERM(q=self.q), name="biased", epochs=epochs, steps=steps)
        weights = self._weights(run, head_norm(run, biased))
        trained: Network = run.train(Adjusted(), weights=weights, network=biased)
        return trained


@dataclass(kw_only=True)
class AsInTheData(PGD):
    """PGD whose draws have each class as often as the data; within a class they are PGD's."""

    def _weights(self, run: Any, scores: Tensor) -> Tensor:
        weights, targets = super()._weights(run, scores), run.data.targets
        weights[run.data.index] *= targets.bincount()[targets].to(weights.dtype)
        return weights


WAYS: dict[str, type[Method]] = {
    "plain training": ERM,
    "PGD as it is, even draws": PGD,
    "even draws, corrected in the loss": Corrected,
    "draws with the shares of the data": AsInTheData,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with all data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets = {
        "pullover or coat, color": pullovers(options.root),
        "X-rays, watermark": [planted(each, "watermark") for each in x_ray_splits(options.root)],
        "X-rays, their own bias": x_ray_splits(options.root),
    }
    found: dict[str, dict[str, list[list[float]]]] = {}
    for name, (train, test) in sets.items():
        for way, kind in WAYS.items():
            rows = [accuracies(fitted(kind(), train, seed), test) for seed in options.seeds]
            found.setdefault(name, {})[way] = rows
            print(name, way, rows, flush=True)
    numbers = "conflicting, overall, class average of each seed"
    keep("class_shares", {"epochs": EPOCHS, "seeds": options.seeds, numbers: found}, "cpu")


if __name__ == "__main__":
    main()
