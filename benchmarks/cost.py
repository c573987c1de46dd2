"""What a method costs: its time over that of plain training of the same network in the same run.

Glyphs in 10 classes and the kernel-7 ConvNet. On CUDA: 60,000 of 28 pixels, batch 256, bf16, wall
time. On the CPU: 96 of 16 pixels, batch 32, and processor time, which other programs on the
machine do not change. Methods with one training are compared by the median time of a steady epoch
of it, which for ie is guided from its first step on. Of the others the whole is measured, with the
same number of epochs for each of their trainings. Plain training is measured before and after each
method. The limits are for CUDA.

    python -m benchmarks.cost [cpu | cuda] [METHOD ...]
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import crossbias
from benchmarks.measure import device_named, keep
from crossbias import TrainConfig, load
from crossbias.data import BiasedDataset
from crossbias.methods import (
    ERM,
    GRL,
    HEX,
    IE,
    JTT,
    LNL,
    PGD,
    REPAIR,
    AFLite,
    BlindEye,
    ClassBalanced,
    Denoised,
    DisEnt,
    EnD,
    GroupBalanced,
    GroupDRO,
    LearnedMixin,
    LfF,
    Method,
    ReBias,
    RUBi,
)
from crossbias.progress import Progress

SETTINGS: dict[str, dict[str, Any]] = {
    "cuda": {"size": 60_000, "image_size": 28, "batch_size": 256, "epochs": 5},
    "cpu": {"size": 96, "image_size": 16, "batch_size": 32, "epochs": 4},
}
STEPS: dict[str, tuple[Method, float | None]] = {
    "class-balanced": (ClassBalanced(), None),
    "group-balanced": (GroupBalanced(), None),
    "end": (EnD(), 1.15),
    "rebias": (ReBias(), 1.5),
    "lnl": (LNL(from_biased=False), 2.2),
    "lnl-color": (LNL(from_biased=False, target="color"), 2.2),
    "blindeye": (BlindEye(from_biased=False), None),
    "grl": (GRL(from_biased=False), None),
    # An ensemble of one step is wrong about most samples: nearly every class has candidates.
    "ie": (IE(members=1, ensemble_length=1, reference_start=0, guidance_start=0), 4.0),
    "lff": (LfF(), 2.1),
    "disent": (DisEnt(swap_start=0.0), None),
    "group-dro": (GroupDRO(), 1.1),
    "rubi": (RUBi(biased="convnet-1x1"), 1.5),
    "learned-mixin": (LearnedMixin(biased="convnet-1x1", biased_epochs=1), 1.5),
    "hex": (HEX(), None),
}
"""Methods whose steady epoch of the final stage is measured, and how much it may cost."""


def pipelines(epochs: int) -> dict[str, tuple[Method, float | None]]:
    """Methods of several trainings, each as long as the final one, and how much they may cost."""
    return {
        "pgd": (PGD(biased_epochs=epochs), 2.3),
        "jtt": (JTT(first_epochs=epochs, copies=1), None),
        "repair": (REPAIR(probe_epochs=epochs), None),
        "aflite": (AFLite(feature_epochs=epochs, target_share=1.0), None),
        "denoised": (Denoised(inner=ERM(), noise_epochs=epochs), None),
    }


class Times(Progress):
    """Remembers how long the epochs of each stage took."""

    def __init__(self, device: str) -> None:
        self.clock = time.process_time if device == "cpu" else time.perf_counter
        self.seconds: dict[str, list[float]] = {}
        self.before = self.clock()

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Keep the time since the epoch before."""
        now = self.clock()
        self.seconds.setdefault(record["stage"], []).append(now - self.before)
        self.before = now


class Costs:
    """Measures on one device and data set."""

    def __init__(self, device: str, data: BiasedDataset, batch_size: int) -> None:
        self.device, self.data, self.network = device, data, crossbias.Recipe("convnet")
        self.config = TrainConfig(
            batch_size=batch_size, device=device, weight_decay=1e-4,
            precision="bf16" if device == "cuda" else "float32",
        )  # fmt: skip
        self._plain: dict[Callable[[Method, int], float], float] = {}  # what was measured last

    def epoch(self, method: Method, epochs: int) -> float:
        """Seconds of a steady epoch; in the first two kernels are chosen and graphs recorded."""
        return statistics.median(self.fit(method, epochs).seconds["final"][2:])

    def compared(
        self, measure: Callable[[Method, int], float], method: Method, epochs: int
    ) -> tuple[float, float]:
        """Seconds of a method, and their ratio to plain training's before and after it."""
        before = self._plain.get(measure) or measure(ERM(), epochs)
        own, after = measure(method, epochs), measure(ERM(), epochs)
        self._plain[measure] = after
        return own, 2 * own / (before + after)

    def whole(self, method: Method, epochs: int) -> float:
        """Seconds of everything that a method does."""
        times = self.fit(method, epochs)
        return sum(map(sum, times.seconds.values())) + times.clock() - times.before

    def fit(self, method: Method, epochs: int) -> Times:
        """One training of so many epochs."""
        config, times = TrainConfig(**vars(self.config) | {"epochs": epochs}), Times(self.device)
        crossbias.fit(method, self.data, network=self.network, config=config, progress=times)
        return times


def judged(ratio: float, limit: float | None) -> dict[str, float | bool]:
    """A ratio, and whether it is within its limit."""
    found: dict[str, float | bool] = {"ratio": round(ratio, 3)}
    return found if limit is None else found | {"limit": limit, "within": ratio <= limit}


def main() -> None:
    device, chosen = device_named(), sys.argv[2:]
    settings = dict(SETTINGS[device])
    epochs = settings.pop("epochs")
    options = {name: settings.pop(name) for name in ("size", "image_size")}
    costs = Costs(device, load("glyphs", "train", **options), **settings)
    costs.fit(ERM(), 1)  # imports and kernels
    found: dict[str, dict[str, float | bool]] = {}
    for measure, methods in ((costs.epoch, STEPS), (costs.whole, pipelines(epochs))):
        for name, (method, limit) in methods.items():
            if not chosen or name in chosen:
                time_taken, ratio = costs.compared(measure, method, epochs)
                found[name] = {"seconds": round(time_taken, 3), **judged(ratio, limit)}
                print(name, found[name], flush=True)
    if not chosen:
        keep("cost", found, device)


if __name__ == "__main__":
    main()
