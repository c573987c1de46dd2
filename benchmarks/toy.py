"""The toy experiment of ReBias (section 3.2): accuracy on de-biased points, decision boundaries.

Plain training and ReBias on `toy-2d`, several seeds; a seed changes both the points and the
training. Draws docs/images/toy.png (Figure A1) with the first seed.

    python -m benchmarks.toy
"""

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import crossbias
from benchmarks.measure import keep
from crossbias import BiasedDataset, Network, TrainConfig, load
from crossbias.methods import ERM, Method, ReBias

SEEDS = range(6)
TRAIN = {"epochs": 20, "batch_size": 128, "device": "cpu"}
METHODS: dict[str, Method] = {
    "erm": ERM(),
    "rebias": ReBias(biased="mlp-first", lambda_f=10.0),
}
TITLES = {"erm": "plain training", "rebias": "ReBias"}
COLORS = ("#c1440e", "#d9a400", "#2f855a")  # red, yellow, green
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "toy.png"


def trained(method: Method, seed: int) -> Network:
    config = TrainConfig(**TRAIN, seed=seed)
    data = load("toy-2d", "train", seed=seed)
    return crossbias.fit(method, data, network="mlp", config=config).network


def accuracy(network: Network, split: str, seed: int) -> float:
    """On one split of the same seed."""
    return crossbias.evaluate(network, load("toy-2d", split, seed=seed)).overall.value


def main() -> None:
    found: dict[str, dict[str, list[float]]] = {}
    networks = {}
    for name, method in METHODS.items():
        of_method = [trained(method, seed) for seed in SEEDS]
        networks[name] = of_method[0]
        found[name] = {
            split: [
                round(accuracy(network, split, seed), 3) for seed, network in enumerate(of_method)
            ]
            for split in ("test", "test-biased")
        }
    draw(networks)
    keep("toy", found, "cpu")


def draw(networks: dict[str, Network]) -> None:
    """Training points over nothing, test points over the regions of each network."""
    train, test = (load("toy-2d", split, seed=SEEDS[0]) for split in ("train", "test"))
    figure = Figure(figsize=(9, 3.2), dpi=130, layout="constrained")
    axes = figure.subplots(1, 1 + len(networks), sharex=True, sharey=True)
    _points(axes[0], train)
    axes[0].set(title="training data", xlabel="bias B", ylabel="signal S")
    for axis, (name, network) in zip(axes[1:], networks.items(), strict=True):
        side = torch.linspace(-2, 2, 201)
        axis.contourf(side, side, _regions(network, side), levels=(-0.5, 0.5, 1.5, 2.5),
                      colors=COLORS, alpha=0.25)  # fmt: skip
        _points(axis, test)
        percent = 100 * accuracy(network, "test", SEEDS[0])
        axis.set(title=f"{TITLES[name]}: {percent:.0f}% right", xlabel="bias B")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def _regions(network: Network, side: Tensor) -> Tensor:
    """The class of each point of a grid, (signal, bias)."""
    signal, bias = torch.meshgrid(side, side, indexing="ij")
    with torch.no_grad():
        logits = network(torch.stack([bias.flatten(), signal.flatten()], 1)).logits
    return logits.argmax(1).view(signal.shape)


def _points(axis: Axes, data: BiasedDataset, count: int = 450) -> None:
    for number, color in enumerate(COLORS):
        bias, signal = data.inputs[:count][data.targets[:count] == number].T
        axis.scatter(bias, signal, s=5, color=color, linewidths=0)


if __name__ == "__main__":
    main()
