"""How long the training splits made of MNIST take, from the files, on one and on two threads.

CROSSBIAS_DATA=folder python -m benchmarks.mnist

Gives the wall time and the processor time, which other work on the machine does not change.
"""

import time

import torch

from benchmarks.measure import keep, seconds
from crossbias import load

NAMES = ("biased-mnist", "colored-mnist-lnl", "colored-mnist", "watermarked-mnist")


def main() -> None:
    found = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name in NAMES:
            wall, processor = zip(*(_times(name) for _ in range(3)), strict=True)
            found[f"{name}, threads: {threads}"] = {"wall": wall, "processor": processor}
    keep("mnist", {"seconds": found}, "cpu")


def _times(name: str) -> tuple[float, float]:
    before = time.process_time()
    wall = seconds(lambda: load(name, "train"))
    return round(wall, 2), round(time.process_time() - before, 2)


if __name__ == "__main__":
    main()
