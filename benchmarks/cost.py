"""What a method costs: its time over that of plain training of the same network in the same run.

Biased-MNIST shapes, 3 x 28 x 28 images in 10 classes. On CUDA: 60,000 of them, the kernel-7
ConvNet, batch 256, bf16. On the CPU: a small version of the same. Methods with one training are
compared by the median time of a steady epoch, which for ie is guided from its first step on. For
pgd the whole is measured: two trainings and the scoring of last-layer gradients. The limits are
for CUDA; on the CPU the network is so small that the full-resolution g of rebias outweighs it.

    python -m benchmarks.cost [cpu | cuda]
"""

import statistics
from typing import Any

import crossbias
from benchmarks.measure import device_named, keep, seconds
from crossbias import TrainConfig, load
from crossbias.data import BiasedDataset
from crossbias.methods import ERM, IE, LNL, PGD, EnD, Method, ReBias
from crossbias.progress import Progress

SETTINGS: dict[str, dict[str, Any]] = {
    "cuda": {"size": 60_000, "network": "convnet", "batch_size": 256, "epochs": 5},
    "cpu": {"size": 600, "network": "small-convnet", "batch_size": 100, "epochs": 4},
}
STEPS: dict[str, tuple[Method, float]] = {
    "end": (EnD(), 1.15),
    "rebias": (ReBias(), 1.5),
    "lnl": (LNL(from_biased=False), 2.2),
    "lnl-color": (LNL(from_biased=False, target="color"), 2.2),
    # An ensemble of one step is wrong about most samples: nearly every class has candidates.
    "ie": (IE(members=1, ensemble_length=1, reference_start=0, guidance_start=0), 4.0),
}
"""Methods whose steady epoch of the final stage is measured, and how much it may cost."""

PGD_LIMIT = 2.3  # trainings of the same length


class Times(Progress):
    """Remembers how long the epochs of each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Keep its time."""
        self.seconds.setdefault(record["stage"], []).append(record["seconds"])


class Costs:
    """Measures on one device, data set and network."""

    def __init__(self, device: str, data: BiasedDataset, network: str, batch_size: int) -> None:
        self.data, self.network = data, crossbias.Recipe(network)
        self.config = TrainConfig(
            batch_size=batch_size, device=device, weight_decay=1e-4,
            precision="bf16" if device == "cuda" else "float32",
        )  # fmt: skip

    def epoch(self, method: Method, epochs: int) -> float:
        """Seconds of a steady epoch; in the first two kernels are chosen and graphs recorded."""
        times = Times()
        self.fit(method, epochs, times)
        return statistics.median(times.seconds["final"][2:])

    def ratio(self, method: Method, epochs: int) -> float:
        """A method's epoch over plain training's, measured before and after it."""
        before, own, after = (self.epoch(each, epochs) for each in (ERM(), method, ERM()))
        return 2 * own / (before + after)

    def pipeline(self, method: Method, epochs: int) -> float:
        """A method of several stages as a whole over one plain training."""
        whole = seconds(lambda: self.fit(method, epochs, Progress()))
        return whole / seconds(lambda: self.fit(ERM(), epochs, Progress()))

    def fit(self, method: Method, epochs: int, progress: Progress) -> None:
        """One training of so many epochs."""
        config = TrainConfig(**vars(self.config) | {"epochs": epochs})
        crossbias.fit(method, self.data, network=self.network, config=config, progress=progress)


def judged(ratio: float, limit: float) -> dict[str, float | bool]:
    return {"ratio": round(ratio, 3), "limit": limit, "within": ratio <= limit}


def main() -> None:
    device = device_named()
    settings = dict(SETTINGS[device])
    epochs = settings.pop("epochs")
    data = load("glyphs", "train", size=settings.pop("size"))
    costs = Costs(device, data, **settings)
    costs.fit(ERM(), 1, Progress())  # imports and kernels
    found = {}
    for name, (method, limit) in STEPS.items():
        found[name] = judged(costs.ratio(method, epochs), limit)
        print(name, found[name], flush=True)
    found["pgd"] = judged(costs.pipeline(PGD(biased_epochs=epochs), epochs), PGD_LIMIT)
    print("pgd", found["pgd"], flush=True)
    keep("cost", found, device)


if __name__ == "__main__":
    main()
