"""The course of LNL's training, and where it leaves the color.

The course is the accuracy on the test images and the loss of LNL's bias network h by epoch. LNL's
own h and the f it works against change together, so that a high loss of h does not say that the
color is gone. Here new networks read the final, frozen f. One of the released h's form reads the
colors of the pixels; another of that form, at each of the same positions, the number of the image's
mean color. One of the form of the classifier g reads that number from the whole of f's maps. If g
can read what h cannot, unlearning against h does not stop the classifier from using it. All learn
from one half of the test images, whose shape does not tell the color as it does in training, and
are measured on the other.

The networks are of plain training, of plain training on gray images, and of LNL, whose h sees
positions or the whole image, with any mu and any factor between the learning rates of h and f; the
authors' are positions, .1 and 1. Losses of h are in nats, the sum over three channels, and also
given for the position in the image alone; the rest in %. On a GPU by the settings of
recipes/colored-mnist-lnl-lnl.toml; on the CPU in small, with 20,000 images and 15 and 30 epochs, at
constant rates. Needs CROSSBIAS_DATA.

    python -m benchmarks.lnl_leftover [cpu | cuda] [erm | gray | lnl [VIEW MU FACTOR]]
"""

import sys
import tomllib
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from benchmarks.measure import device_named, keep
from benchmarks.reproduce import RECIPES
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.data import load
from crossbias.data.loader import Loader
from crossbias.functional import bias_cross_entropy, color_levels
from crossbias.functional.colors import IGNORED
from crossbias.methods import ERM, Method
from crossbias.networks import create_network
from crossbias.networks.bias_predictors import ColorPredictor, middle_layer
from crossbias.progress import Progress
from crossbias.registry import create_method
from crossbias.types import Batch

SETTINGS = {
    "cuda": {"images": 60_000, "biased": 100, "lnl": 100, "fresh": 30},
    "cpu": {"images": 20_000, "biased": 15, "lnl": 30, "fresh": 20},
}
BATCH = 128
NETWORKS = ("erm", "gray", "lnl")


class Course(Progress):
    """Prints and remembers what each epoch that was judged came to."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Keep the accuracy and, of LNL, the loss of h."""
        if record["stage"] == "final" and record["validation"]:
            found = {"epoch": record["epoch"], "accuracy": 100 * record["validation"]["accuracy"]}
            if "bias" in record["losses"]:
                found["loss of h"] = record["losses"]["bias"]
            self.epochs.append({name: round(value, 3) for name, value in found.items()})
            print(self.epochs[-1], flush=True)


class Frozen:
    """The lower half of a trained network, and halves of the test images to read it with."""

    def __init__(self, network: Network, test: BiasedDataset, device: str, epochs: int) -> None:
        self.network = network.to(device).eval()
        self.network.tap(last_of_f(network))
        self.device, self.epochs = torch.device(device), epochs
        self.learned, self.measured = (self.loader(half) for half in halves(test))

    def loader(self, data: BiasedDataset) -> Loader:
        """Batches of a data set on the device."""
        return Loader(data, self.device, resident_bytes=2**30, workers=0)

    def features(self, batch: Batch) -> Tensor:
        """What f gives."""
        with torch.no_grad():
            return self.network.until_tap(batch.inputs)

    def levels(self, batch: Batch) -> Tensor:
        """The colors of the pixels."""
        return color_levels(batch.inputs, mean=self.learned.mean, std=self.learned.std)

    def asked(self, batch: Batch) -> Tensor:
        """The positions at which h is asked for a color, ``(B, 14, 14)``."""
        return (self.levels(batch) != IGNORED).any(1)

    def read(
        self,
        reader: nn.Module,
        loss: Callable[[Tensor, Batch], Tensor],
        measure: Callable[[Tensor, Batch], Tensor],
    ) -> float:
        """A mean over the second half after a reader has learned from the first."""
        reader = reader.to(self.device)
        optimizer = torch.optim.Adam(reader.parameters(), lr=1e-3)
        for _ in range(self.epochs):
            order = torch.randperm(len(self.learned.data))
            for batch in self.learned.batches(order.split(BATCH)):
                of_batch = loss(reader(self.features(batch)), batch)
                optimizer.zero_grad()
                of_batch.backward()
                optimizer.step()
        reader.eval()
        rows = torch.arange(len(self.measured.data))
        with torch.no_grad():
            found = [
                measure(reader(self.features(batch)), batch)
                for batch in self.measured.batches(rows.split(1000))
            ]
        return torch.stack(found).mean().item()

    def loss_of_h(self) -> float:
        """Of the colors of the pixels."""

        def loss(scores: Tensor, batch: Batch) -> Tensor:
            return bias_cross_entropy(scores, self.levels(batch))

        return self.read(ColorPredictor(32, 3, 8), loss, loss)

    def accuracy_at_positions(self) -> float:
        """Of the number of the mean color, by a network of h's form at each position."""

        def answers(scores: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            asked = self.asked(batch)
            known = batch.bias[:, None, None].expand_as(asked)[asked]
            return scores.squeeze(2).movedim(1, -1)[asked], known

        def loss(scores: Tensor, batch: Batch) -> Tensor:
            return F.cross_entropy(*answers(scores, batch))

        def measure(scores: Tensor, batch: Batch) -> Tensor:
            given, known = answers(scores, batch)
            return (given.argmax(1) == known).float().mean()

        return self.read(ColorPredictor(32, 1, 10), loss, measure)

    def accuracy_of_g(self) -> float:
        """Of the number of the mean color."""
        return self.read(
            FreshG(),
            lambda logits, batch: F.cross_entropy(logits, batch.bias),
            lambda logits, batch: (logits.argmax(1) == batch.bias).float().mean(),
        )


class FreshG(nn.Module):
    """The upper half of the network."""

    def __init__(self) -> None:
        super().__init__()
        whole = create_network("lnl-convnet", num_classes=10)
        layers = cast("nn.Sequential", whole.body)
        last = int(middle_layer(whole).removeprefix("body."))
        self.upper = Network(layers[last + 1 :], whole.head)

    def forward(self, features: Tensor) -> Tensor:
        """Logits."""
        return self.upper(features).logits  # type: ignore[no-any-return]


def halves(test: BiasedDataset) -> tuple[BiasedDataset, BiasedDataset]:
    """What is learned from, and what is measured on."""
    rows = torch.arange(len(test))
    return test.subset(rows[::2]), test.subset(rows[1::2])


def last_of_f(network: Network) -> str:
    """Name of the layer, also of a network on gray images, where it is behind the conversion."""
    if layer := middle_layer(network):
        return layer
    inner = Network(cast("nn.Sequential", network.body)[1], network.head)
    return middle_layer(inner).replace("body.", "body.1.", 1)


def position_loss(test: BiasedDataset) -> float:
    """The loss of the frequency of each level at each position."""
    learned, measured = halves(test)
    counts = torch.ones(8, 3, 14, 14)
    for part in learned.inputs.split(5000):
        of_part = color_levels(part)
        for level in range(8):
            counts[level] += (of_part == level).sum(0)
    scores = counts.log()[None]
    losses = [
        bias_cross_entropy(scores.expand(len(part), -1, -1, -1, -1), color_levels(part))
        for part in measured.inputs.split(1000)
    ]
    return torch.stack(losses).mean().item()


def follows_color(network: Network, loader: Loader) -> float:
    """Share of the conflicting images that are called the digit whose color they have."""
    fooled = conflicting = 0
    with torch.no_grad():
        for batch in loader.batches(torch.arange(len(loader.data)).split(1000)):
            other = batch.bias != batch.target
            called = network(batch.inputs).logits.argmax(1)
            fooled += int((other & (called == batch.bias)).sum())
            conflicting += int(other.sum())
    return fooled / conflicting


def trained_by(name: str, settings: dict[str, int]) -> tuple[Method, str, int]:
    """A method, its network and its epochs."""
    if name != "lnl":
        network = "gray" if name == "gray" else "lnl-convnet"
        return ERM(), network, settings["biased"]
    return lnl(*lnl_settings(), biased_epochs=settings["biased"]), "lnl-convnet", settings["lnl"]


def lnl(view: str, mu: float, factor: float, *, biased_epochs: int) -> Method:
    """LNL against colors."""
    return create_method(
        "lnl",
        target="color",
        view=view,
        mu=mu,
        bias_lr_factor=factor,
        biased_epochs=biased_epochs,
    )


def lnl_settings() -> tuple[str, float, float]:
    """What h sees, mu and the factor of its learning rate on the command line, or the authors'."""
    if len(sys.argv) not in (1, 2, 3, 6):
        sys.exit("name h's view, mu and the factor of h's learning rate")
    view, mu, factor = sys.argv[3:6] or ("position", "0.1", "1")
    return view, float(mu), float(factor)


def recipe_config(epochs: int, device: str, *, interval: int, seed: int = 0) -> TrainConfig:
    """The settings of recipes/colored-mnist-lnl-lnl.toml, judged every few epochs."""
    recipe = tomllib.loads((RECIPES / "colored-mnist-lnl-lnl.toml").read_text())
    ours = {"epochs": epochs, "validation_interval": interval, "device": device, "seed": seed}
    return TrainConfig.from_dict(recipe["train"] | ours)


def main() -> None:
    device = device_named()
    name = sys.argv[2] if len(sys.argv) > 2 else "lnl"
    if name not in NETWORKS:
        sys.exit(f"no network {name!r}; one of {', '.join(NETWORKS)}")
    settings = SETTINGS[device]
    train, test = (load("colored-mnist-lnl", split, sigma2=0.02) for split in ("train", "test"))
    method, network, epochs = trained_by(name, settings)
    config = recipe_config(epochs, device, interval=2)
    course = Course()
    train = train.subset(torch.arange(settings["images"]))
    result = crossbias.fit(
        method, train, validation=test, network=network, config=config, progress=course
    )
    (score,) = result.evaluate(test).values()
    torch.manual_seed(0)
    frozen = Frozen(result.network, test, device, settings["fresh"])
    found = {
        "accuracy": round(100 * score.overall.value, 2),
        "follows the color": round(100 * follows_color(frozen.network, frozen.loader(test)), 2),
        "loss of a fresh h": round(frozen.loss_of_h(), 3),
        "loss of h by position only": round(position_loss(test), 3),
        "the color at one position": round(100 * frozen.accuracy_at_positions(), 2),
        "a fresh g reads the color": round(100 * frozen.accuracy_of_g(), 2),
        "course": course.epochs,
    }
    part = "lnl-{}-{:g}-{:g}".format(*lnl_settings()) if name == "lnl" else name
    keep("lnl_leftover", found, device, part=part)


if __name__ == "__main__":
    main()
