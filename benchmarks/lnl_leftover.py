"""What LNL leaves of the color in its features: a fresh bias network on the frozen f.

LNL's own bias network h and the network it works against change together, so that a high loss of
h does not say that the color is gone. Here a new h of the same form learns from the final, frozen
f, and from those of plain training and of plain training on gray images; and, for comparison, from
nothing but the position in the image. It learns from one half of the test images, whose shape does
not tell the color as it does in training, and is measured on the other. Losses in nats, the sum
over three channels; accuracies in %. Needs CROSSBIAS_DATA.

    python -m benchmarks.lnl_leftover [cpu | cuda]
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

import crossbias
from benchmarks.measure import device_named, keep
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.data import load
from crossbias.data.loader import Loader
from crossbias.functional import bias_cross_entropy, color_levels
from crossbias.methods import ERM, LNL, Method
from crossbias.networks.middle import middle_layer
from crossbias.networks.predictors import bias_predictor
from crossbias.train.progress import Progress

EPOCHS = {"biased": 20, "lnl": 40, "fresh": 30}
BATCH = 128


class Last(Progress):
    """Remembers the losses of the last epoch."""

    def __init__(self) -> None:
        self.losses: dict[str, float] = {}

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Keep them."""
        self.losses = record["losses"]


def levels(loader: Loader, inputs: Tensor) -> Tensor:
    return color_levels(inputs, mean=loader.mean, std=loader.std)


def halves(test: BiasedDataset) -> tuple[BiasedDataset, BiasedDataset]:
    """What a fresh h learns from, and what it is measured on."""
    rows = torch.arange(len(test))
    return test.subset(rows[::2]), test.subset(rows[1::2])


def last_of_f(network: Network) -> str:
    """Name of the layer, also of a network on gray images, where it is behind the conversion."""
    if layer := middle_layer(network):
        return layer
    inner = Network(cast("nn.Sequential", network.body)[1], network.head)
    return middle_layer(inner).replace("body.", "body.1.", 1)


def fresh_loss(network: Network, test: BiasedDataset, device: str) -> float:
    """Loss of a bias network that has learned from the frozen lower half."""
    network = network.to(device).eval()
    network.tap(last_of_f(network))
    options: dict[str, Any] = {"resident_bytes": 2**30, "workers": 0}
    train, test = halves(test)
    here, there = (Loader(data, torch.device(device), **options) for data in (train, test))
    with torch.no_grad():
        shape = network.until_tap(next(here.batches([torch.arange(1)])).inputs).shape[1:]
    predictor = bias_predictor("color", train, shape).to(device)
    optimizer = torch.optim.Adam(predictor.parameters(), lr=1e-3)
    for _ in range(EPOCHS["fresh"]):
        for batch in here.batches(torch.randperm(len(train)).split(BATCH)):
            with torch.no_grad():
                features = network.until_tap(batch.inputs)
            loss = bias_cross_entropy(predictor(features), levels(here, batch.inputs))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    predictor.eval()
    with torch.no_grad():
        losses = [
            bias_cross_entropy(
                predictor(network.until_tap(batch.inputs)), levels(there, batch.inputs)
            )
            for batch in there.batches(torch.arange(len(test)).split(1000))
        ]
    return torch.stack(losses).mean().item()


def position_loss(test: BiasedDataset) -> float:
    """The same of the frequency of each level at each position."""
    train, test = halves(test)
    counts = torch.ones(8, 3, 14, 14)
    for part in train.inputs.split(5000):
        of_part = color_levels(part)
        for level in range(8):
            counts[level] += (of_part == level).sum(0)
    scores = counts.log()[None]
    losses = [
        bias_cross_entropy(scores.expand(len(part), -1, -1, -1, -1), color_levels(part))
        for part in test.inputs.split(1000)
    ]
    return torch.stack(losses).mean().item()


def follows_color(network: Network, test: BiasedDataset, device: str) -> float:
    """Share of the conflicting test images that are called the digit whose color they have."""
    loader = Loader(test, torch.device(device), resident_bytes=2**30, workers=0)
    network = network.to(device).eval()
    fooled = conflicting = 0
    with torch.no_grad():
        for batch in loader.batches(torch.arange(len(test)).split(1000)):
            other = batch.bias != batch.target
            called = network(batch.inputs).logits.argmax(1)
            fooled += int((other & (called == batch.bias)).sum())
            conflicting += int(other.sum())
    return fooled / conflicting


def main() -> None:
    device = device_named()
    train, test = (load("colored-mnist-lnl", name, sigma2=0.02) for name in ("train", "test"))
    config = {
        "batch_size": BATCH, "optimizer": "sgd", "lr": 0.01, "momentum": 0.9,
        "weight_decay": 5e-4, "device": device,
    }  # fmt: skip
    methods: dict[str, tuple[Method, str, int]] = {
        "erm": (ERM(), "lnl-convnet", EPOCHS["biased"]),
        "gray": (ERM(), "gray", EPOCHS["biased"]),
        "lnl": (
            LNL(target="color", biased_epochs=EPOCHS["biased"]), "lnl-convnet", EPOCHS["lnl"],
        ),
    }  # fmt: skip
    found: dict[str, Any] = {"position only": round(position_loss(test), 3)}
    for name, (method, network, epochs) in methods.items():
        torch.manual_seed(0)
        last = Last()
        result = crossbias.fit(
            method,
            train,
            network=network,
            config=TrainConfig(epochs=epochs, **config),
            progress=last,
        )
        (score,) = result.evaluate(test).values()
        found[name] = {
            "accuracy": round(100 * score.overall.value, 2),
            "follows the color": round(100 * follows_color(result.network, test, device), 2),
            "loss of a fresh h": round(fresh_loss(result.network, test, device), 3),
        }
        if "bias" in last.losses:
            found[name]["loss of its own h in training"] = round(last.losses["bias"], 3)
        print(name, found[name], flush=True)
    keep("lnl_leftover", found, device)


if __name__ == "__main__":
    main()
