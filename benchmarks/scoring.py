"""The gradient norms of pgd against one evaluation pass of the same network and data.

python -m benchmarks.scoring [cpu | cuda]
"""

import statistics

import crossbias
from benchmarks.measure import alternate, device_named, keep, ratio
from crossbias import TrainConfig, load
from crossbias.methods.scores import head_norm
from crossbias.train.run import Run


def main() -> None:
    device = device_named()
    on_cuda = device == "cuda"
    data = load("glyphs", "train", size=60_000)
    network = crossbias.create("convnet" if on_cuda else "small-convnet", num_classes=10)
    config = TrainConfig(batch_size=256, device=device, precision="bf16" if on_cuda else "float32")
    run = Run(data, network=network, config=config, validation=data)
    network.to(run.device)
    actions = {
        "score": lambda: head_norm(run, network).cpu(),
        "evaluate": lambda: run.validate(network),
    }
    alternate(actions, 1)
    times = alternate(actions, 7)
    found = {name: round(statistics.median(values), 3) for name, values in times.items()}
    keep("scoring", found | {"ratio": round(ratio(times, "score", "evaluate"), 3)}, device)


if __name__ == "__main__":
    main()
