"""A training step on a CPU with maps whose channels are last in memory, against channels first.

python -m benchmarks.layouts
"""

import copy
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks.measure import keep, ratio
from crossbias.networks import create_network

NETWORKS = (
    "tf_efficientnet_lite0", "mobilenetv2_100", "mobilenetv3_large_100", "convnext_atto",
    "resnet18", "resnet50", "densenet121",
)  # fmt: skip
BATCH, SIDE, TURNS = 64, 64, 5


def stepping(name: str, layout: torch.memory_format) -> Callable[[], None]:
    """A step of plain training."""
    torch.manual_seed(0)
    network = copy.deepcopy(create_network(name, num_classes=10)).to(memory_format=layout)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    images, target = torch.randn(BATCH, 3, SIDE, SIDE), torch.arange(BATCH) % 10

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(network(images).logits, target).backward()
        optimizer.step()

    return step


def processor_time(action: Callable[[], None]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def measured(name: str) -> dict[str, float]:
    """Seconds of processor time, taking turns, and the ratio of the two layouts."""
    layouts = {"first": torch.contiguous_format, "last": torch.channels_last}
    steps = {name_of: stepping(name, layout) for name_of, layout in layouts.items()}
    times: dict[str, list[float]] = {name_of: [] for name_of in steps}
    for _ in range(1 + TURNS):
        for name_of, step in steps.items():
            times[name_of].append(processor_time(step))
    times = {name_of: values[1:] for name_of, values in times.items()}  # the first one prepares
    return {
        **{f"channels {name_of}": round(min(values), 3) for name_of, values in times.items()},
        "ratio": round(ratio(times, "last", "first"), 2),
    }


def main() -> None:
    found = {name: measured(name) for name in NETWORKS}
    for name, result in found.items():
        print(name, result)
    keep("layouts", found, "cpu")


if __name__ == "__main__":
    main()
