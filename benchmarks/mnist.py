"""How long the data sets made of MNIST take, from the files to the tensors, on one and two threads.

CROSSBIAS_DATA=folder python -m benchmarks.mnist
"""

import torch

from benchmarks.measure import alternate, keep
from crossbias.data import load

NAMES = ("biased-mnist", "colored-mnist-lnl", "colored-mnist", "watermarked-mnist")


def main() -> None:
    found = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        times = alternate({name: lambda name=name: load(name, "train") for name in NAMES}, 3)
        for name, values in times.items():
            found[f"{name}, {threads} threads"] = [round(value, 2) for value in values]
    keep("mnist", {"seconds": found}, "cpu")


if __name__ == "__main__":
    main()
