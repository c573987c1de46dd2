"""Seconds for each epoch of erm, end and rebias with the Biased-MNIST shapes, steady state.

60,000 images of 3 x 28 x 28, the kernel-7 ConvNet, batch 256, bf16. Times come from the run's
log. The first two epochs, in which kernels are chosen, are left out.

    python -m benchmarks.epochs cuda
"""

import statistics

import crossbias
from benchmarks.measure import device_named, keep
from crossbias import TrainConfig, load
from crossbias.methods import ERM, EnD, Method, ReBias
from crossbias.progress import Progress

METHODS: dict[str, Method] = {"erm": ERM(), "end": EnD(), "rebias": ReBias()}


class Times(Progress):
    """Remembers how long epochs took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def end_epoch(self, record: dict) -> None:
        """Keep its time."""
        self.seconds.append(record["seconds"])


def main() -> None:
    device = device_named()
    data = load("glyphs", "train", size=60_000)
    config = TrainConfig(
        epochs=6, batch_size=256, precision="bf16", weight_decay=1e-4, device=device
    )
    found = {}
    for name, method in METHODS.items():
        times = Times()
        crossbias.fit(method, data, network="convnet", config=config, progress=times)
        found[name] = {
            "first": times.seconds[0],
            "steady": round(statistics.median(times.seconds[2:]), 3),
        }
    keep("epochs", found, device)


if __name__ == "__main__":
    main()
