"""When to stop PGD's biased training: traces of it, and what rules without bias labels lead to.

python -m benchmarks.biased_length FOLDER_OF_ALL_DATA

Follows the biased network epoch by epoch on the sets of ``benchmarks.small_data``, with the
settings that crossbias chooses for own images, for 30 epochs. Then the final network is trained
from where each rule stops, and as PGD does it.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import crossbias
from benchmarks.measure import keep
from benchmarks.small_data import fashion, network, planted, pullovers, stacked, x_ray_splits
from crossbias.data import BiasedDataset
from crossbias.defaults import training_for
from crossbias.methods import ERM, PGD
from crossbias.methods.erm import BiasedERM
from crossbias.methods.scores import head_norm
from crossbias.methods.symptoms import has_learned
from crossbias.networks.network import Network
from crossbias.train.data_symptoms import conflicting_samples
from crossbias.train.method import Method

EPOCHS = 30
PARTS = (0.05, 0.1, 0.25, 0.5, 1.0)  # of the biased training, at which the traces are kept
RISE = 0.1  # accuracy on the hard samples from which on they are being learned
LEVEL, PATIENCE = 0.01, 3  # accuracy that does not rise by this much in so many epochs is level


class Look(NamedTuple):
    """The biased network after an epoch."""

    right: Tensor  # (n,) bool, its answers to the training samples
    scores: Tensor  # (full_size,)
    state: dict[str, Tensor]


@dataclass(kw_only=True)
class Followed(BiasedERM):
    """The biased training of PGD, looked at after every epoch."""

    def begin_epoch(self) -> None:
        """Start the list; a training begins once."""
        if not hasattr(self, "looks"):
            self.looks: list[Look] = []

    def end_epoch(self) -> dict[str, float]:
        """Keep answers, scores and weights."""
        answers = self.run.score(self.network, lambda b, o: o.logits.argmax(1) == b.target)
        state = {name: value.clone() for name, value in self.network.state_dict().items()}
        right = answers[self.run.data.index] > 0
        self.looks.append(Look(right, head_norm(self.run, self.network), state))
        return {}


@dataclass(kw_only=True, eq=False, repr=False)
class Continued(Method):
    """The final training of PGD, from a biased network that was trained before."""

    look: Look

    def fit(self, run: Any) -> Network:
        """Draw by the scores, start from the weights."""
        biased = run.make_network()
        biased.load_state_dict(self.look.state)
        weights = draws(run.data, self.look.scores)
        trained: Network = run.train(ERM(), weights=weights, network=biased)
        return trained


class _Data(NamedTuple):
    data: BiasedDataset


def draws(data: BiasedDataset, scores: Tensor) -> Tensor:
    """How often PGD draws each row at its defaults, (full_size,)."""
    return PGD()._weights(_Data(data), scores.clone())  # type: ignore[arg-type]


def after_hard_samples_rise(looks: Sequence[Look], data: BiasedDataset) -> int:
    """Hard samples are wrong when the network has first learned something; stop when they rise."""
    accuracy = [float(look.right.float().mean()) for look in looks]
    first = next((n for n, each in enumerate(accuracy) if has_learned(each, data)), len(looks) - 1)
    hard = ~looks[first].right
    for number in range(first + 1, len(looks)):
        if float(looks[number].right[hard].float().mean()) > RISE:
            return number - 1
    return len(looks) - 1


def after_accuracy_is_level(looks: Sequence[Look], data: BiasedDataset) -> int:
    """Stop when training accuracy has learned something and no longer rises."""
    accuracy = [float(look.right.float().mean()) for look in looks]
    for number in range(PATIENCE, len(looks)):
        gained = accuracy[number] - accuracy[number - PATIENCE]
        if has_learned(accuracy[number], data) and gained < LEVEL:
            return number
    return len(looks) - 1


def at_the_end(looks: Sequence[Look], data: BiasedDataset) -> int:
    """Train it as long as the final network, as the papers do."""
    return len(looks) - 1


def by_bias_labels(looks: Sequence[Look], data: BiasedDataset) -> int:
    """Where conflicting samples have most draws, which no rule without bias labels can see."""
    shares = [share_of_conflicting(data, look) for look in looks]
    return shares.index(max(shares))


RULES: dict[str, Callable[[Sequence[Look], BiasedDataset], int]] = {
    "hard samples rise": after_hard_samples_rise,
    "accuracy is level": after_accuracy_is_level,
    "as long as the final training": at_the_end,
    "most draws of conflicting samples (bias labels)": by_bias_labels,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with all data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(1)
    root = options.root
    sets = {
        "Fashion-MNIST, ten classes, color": fashion(root),
        "pullover or coat, color": pullovers(root),
        "pullover or coat over 7 or 9": stacked(root),
        "X-rays, watermark": [planted(data, "watermark") for data in x_ray_splits(root)],
        "X-rays, their own bias": x_ray_splits(root),
    }
    found = {
        name: [measured(name, *splits, seed=seed) for seed in options.seeds]
        for name, splits in sets.items()
    }
    keep("biased_length", {"epochs": EPOCHS, "seeds": options.seeds, "sets": found}, "cpu")


def measured(name: str, train: BiasedDataset, test: BiasedDataset, *, seed: int) -> dict[str, Any]:
    """The trace of one biased training, and accuracies after each way of stopping it."""
    followed = Followed()
    fitted(followed, train, seed)
    looks = followed.looks
    epochs = {rule: choose(looks, train) for rule, choose in RULES.items()}
    ways: dict[str, Method] = {"plain training": ERM(), "PGD as it is": PGD()}
    ways |= {rule: Continued(look=looks[epoch]) for rule, epoch in epochs.items()}
    found = {
        "trace": [traced(looks, part, train) for part in PARTS],
        "stopped after epoch": {rule: epoch + 1 for rule, epoch in epochs.items()},
        "conflicting, overall, class average": {
            way: accuracies(fitted(method, train, seed), test) for way, method in ways.items()
        },
    }
    print(name, seed, found, flush=True)
    return found


def fitted(method: Method, train: BiasedDataset, seed: int) -> crossbias.Result:
    fields = training_for(len(train), train.inputs.shape[1:], gpu=False, pretrained=False)
    config = crossbias.TrainConfig(**fields | {"epochs": EPOCHS}, seed=seed, device="cpu")
    torch.manual_seed(seed)  # for the first weights of the network
    return crossbias.fit(method, train, network=network(train), config=config, progress=False)


def traced(looks: Sequence[Look], part: float, data: BiasedDataset) -> dict[str, float]:
    """Accuracies on training samples after a part of the training, and who is drawn, in percent."""
    place = max(1, round(part * len(looks))) - 1
    look, conflicting = looks[place], conflicting_samples(data, data.alignment())
    return {
        "epoch": place + 1,
        "aligned": _percent(look.right[~conflicting]),
        "conflicting": _percent(look.right[conflicting]),
        "draws of conflicting": round(100 * share_of_conflicting(data, look), 1),
    }


def share_of_conflicting(data: BiasedDataset, look: Look) -> float:
    """The share of the draws that samples in conflict with the bias have."""
    weights = draws(data, look.scores)[data.index]
    conflicting = conflicting_samples(data, data.alignment())
    return float(weights[conflicting].sum() / weights.sum())


def accuracies(result: crossbias.Result, test: BiasedDataset) -> list[float]:
    metrics = result.evaluate(test)["test"]
    assert metrics.conflicting is not None
    parts = (metrics.conflicting, metrics.overall, metrics.class_averaged)
    return [round(100 * part.value, 1) for part in parts]


def _percent(right: Tensor) -> float:
    return round(100 * float(right.float().mean()), 1)


if __name__ == "__main__":
    main()
