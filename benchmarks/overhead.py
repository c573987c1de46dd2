"""Training through crossbias.fit against a bare loop of the same network, data and precision.

On CUDA: the Biased-MNIST shapes, 60,000 images, the kernel-7 ConvNet, batch 256, bf16. On the
CPU: glyphs and Simple ConvNet-1. The bare loop keeps its data on the device too, and uses the
same memory format, optimizer and choice of kernels.

    python -m benchmarks.overhead [cpu | cuda]
"""

import copy
import statistics

import torch
import torch.nn.functional as F

import crossbias
from benchmarks.measure import alternate, device_named, keep, ratio
from crossbias import Network, TrainConfig, load
from crossbias.data import BiasedDataset
from crossbias.methods import ERM
from crossbias.progress import Progress

SETTINGS = {
    "cuda": {"size": 60_000, "network": "convnet", "batch": 256, "epochs": 4, "repeats": 3},
    "cpu": {"size": 4_000, "network": "small-convnet", "batch": 128, "epochs": 3, "repeats": 5},
}


def bare_loop(network: Network, data: BiasedDataset, config: TrainConfig, device: str) -> None:
    """What one writes without a library."""
    on_cuda = device == "cuda"
    torch.backends.cudnn.benchmark = True
    network = copy.deepcopy(network).to(device)
    if on_cuda:
        network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), lr=config.lr, fused=True)
    inputs, targets = data.inputs.to(device), data.targets.to(device)
    network.train()
    for _ in range(config.epochs):
        order = torch.randperm(len(data), device=device)
        for rows in order.split(config.batch_size):
            images = inputs[rows].float().div_(255).sub_(0.5).div_(0.5)
            if on_cuda:
                images = images.contiguous(memory_format=torch.channels_last)
            with torch.autocast(device, torch.bfloat16, enabled=on_cuda):
                output = network(images)
            loss = F.cross_entropy(output.logits.float(), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    device = device_named()
    settings = SETTINGS[device]
    data = load("glyphs", "train", size=settings["size"])
    network = crossbias.create(settings["network"], num_classes=10)
    config = TrainConfig(
        epochs=settings["epochs"], batch_size=settings["batch"], device=device,
        precision="bf16" if device == "cuda" else "float32",
    )  # fmt: skip

    def ours() -> None:
        crossbias.fit(ERM(), data, network=network, config=config, progress=Progress())

    def theirs() -> None:
        bare_loop(network, data, config, device)

    data.hash  # noqa: B018  computed once, and not part of training
    ours(), theirs()  # imports, kernels and graphs are found in the first round
    times = alternate({"fit": ours, "bare": theirs}, settings["repeats"])
    found = {name: round(statistics.median(values), 3) for name, values in times.items()}
    keep("overhead", found | {"ratio": round(ratio(times, "fit", "bare"), 3)}, device)


if __name__ == "__main__":
    main()
