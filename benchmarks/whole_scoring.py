"""PGD's scores from gradients of the whole network: their time in epochs of plain training.

The shapes of benchmarks.cost. On CUDA also the memory they take beside the data, for all of the
images and for half of them.

    python -m benchmarks.whole_scoring [cpu | cuda]
"""

from typing import Any

import torch

from benchmarks.cost import SETTINGS, Costs, judged
from benchmarks.measure import device_named, keep, seconds
from crossbias import load
from crossbias.data import BiasedDataset
from crossbias.methods import ERM
from crossbias.methods.scores import gradient_acceptance
from crossbias.networks import Network
from crossbias.train.run import Run

LIMIT = 4.0  # training epochs


def scored(run: Run, network: Network) -> None:
    gradient_acceptance(run, network, dimensions=100, balance=1.0, floor=0.01).cpu()


def peak(costs: Costs, data: BiasedDataset, network: Network) -> float:
    """GiB at most allocated by scoring some data, over what is allocated before."""
    run = Run(data, network=costs.network, config=costs.config)
    run.loader(run.data)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    scored(run, network)
    return round((torch.cuda.max_memory_allocated() - before) / 2**30, 2)


def main() -> None:
    device = device_named()
    settings: dict[str, Any] = dict(SETTINGS[device])
    epochs = settings.pop("epochs")
    data = load("glyphs", "train", size=settings.pop("size"))
    costs = Costs(device, data, **settings)
    run = Run(data, network=costs.network, config=costs.config)
    network = run.train(ERM(), epochs=1)
    scored(run, network)  # kernels
    time, epoch = seconds(lambda: scored(run, network)), costs.epoch(ERM(), epochs)
    found: dict[str, Any] = {"seconds": round(time, 2), **judged(time / epoch, LIMIT)}
    if device == "cuda":
        half = data.subset(torch.arange(len(data) // 2))
        found["GiB"] = {len(part): peak(costs, part, network) for part in (data, half)}
    keep("whole_scoring", found, device)


if __name__ == "__main__":
    main()
