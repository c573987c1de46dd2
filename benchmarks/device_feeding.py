"""Training from the cache against data on the device, and against decoding in every epoch.

ResNet-18 and ResNet-50 on the photographs of BAR at 224 pixels, each in several copies. Four ways
to feed the same steps (SGD; on CUDA bf16 and channels last):

- bare: a plain loop, all images on the device already;
- resident: crossbias.fit, which is told to move the data to the device;
- fed: crossbias.fit from its cache, as it does by default with data of this size on CUDA;
- decoded: a plain loop with torchvision's ``ImageFolder`` and a ``DataLoader``.

Images a second are those of the fastest epoch after the first, in which kernels are chosen and
workers start. Needs CROSSBIAS_DATA, with the folder bar/train in it. On the CPU the same program
has one copy, 32 pixels and ResNet-18 alone.

    CROSSBIAS_DATA=... python -m benchmarks.device_feeding [cpu | cuda] [NETWORK ...]
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import crossbias
from benchmarks.measure import device_named, keep, seconds
from crossbias import BiasedDataset, TrainConfig
from crossbias.data.images.decoding import Fit, read_images
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM
from crossbias.progress import Progress

EPOCHS = 3
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Settings:
    """What is trained, and on how much."""

    networks: tuple[str, ...]
    size: int  # pixels
    copies: int  # of each photograph; 16 are more than the 4 GiB that crossbias keeps on a device
    batch: int
    workers: int  # that decode


SETTINGS = {
    "cuda": Settings(("resnet18", "resnet50"), 224, 16, 256, 16),
    "cpu": Settings(("resnet18",), 32, 1, 64, 2),
}


class Times(Progress):
    """Remembers how long epochs took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def end_epoch(self, record: dict) -> None:
        """Keep its time."""
        self.seconds.append(record["seconds"])


def copied(photographs: Path, folder: Path, copies: int) -> None:
    """Copies of the photographs in a folder for each class, as ``ImageFolder`` wants them."""
    for file in sorted(photographs.iterdir()):
        place = folder / file.stem.rstrip("0123456789").rstrip("_")
        place.mkdir(exist_ok=True)
        for number in range(copies):
            shutil.copyfile(file, place / f"{file.stem}-{number}{file.suffix}")


def train(
    name: str, classes: int, device: str, epoch: Callable[[], Iterable[tuple[Tensor, Tensor]]]
) -> list[float]:
    """Seconds of each epoch of a plain loop."""
    torch.backends.cudnn.benchmark = True
    network = torchvision.models.get_model(name, num_classes=classes).to(device).train()
    network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)

    def once() -> None:
        for images, targets in epoch():
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                logits = network(images)
            loss = F.cross_entropy(logits.float(), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return [seconds(once) for _ in range(EPOCHS)]


def on_device(inputs: Tensor, targets: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of images that are on the device already, in a new order."""
    device = inputs.device
    mean, std = (torch.tensor(part, device=device).view(1, 3, 1, 1) for part in (MEAN, STD))
    for rows in torch.randperm(len(inputs), device=device).split(batch):
        images = inputs[rows].to(torch.float32, memory_format=torch.channels_last)
        yield images.div_(255).sub_(mean).div_(std), targets[rows]


def on_disk(folder: Path, settings: Settings) -> DataLoader:
    """Files that are decoded in every epoch."""
    transform = v2.Compose(
        [
            v2.Resize(settings.size),
            v2.CenterCrop(settings.size),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    return DataLoader(
        torchvision.datasets.ImageFolder(str(folder), transform),
        batch_size=settings.batch, shuffle=True, num_workers=settings.workers,
        pin_memory=torch.cuda.is_available(), persistent_workers=True,
    )  # fmt: skip


def through_crossbias(
    name: str, data: BiasedDataset, settings: Settings, device: str, **options: int
) -> list[float]:
    """Seconds of each epoch of ``crossbias.fit``."""
    config = TrainConfig(
        epochs=EPOCHS, batch_size=settings.batch, optimizer="sgd", lr=0.01, device=device,
        precision="bf16" if device == "cuda" else "float32", **options,
    )  # fmt: skip
    times = Times()
    crossbias.fit(ERM(), data, network=f"torchvision.models:{name}", config=config, progress=times)
    return times.seconds


def measured(
    name: str, data: BiasedDataset, folder: Path, settings: Settings, device: str
) -> dict[str, float]:
    """Images a second of each way to feed, and the ratios that matter."""
    classes = data.num_classes
    inputs, targets = data.inputs.to(device), data.targets.to(device)
    files = on_disk(folder, settings)
    fed = min(data.inputs.nbytes - 1, TrainConfig().resident_bytes)
    ways: dict[str, Callable[[], list[float]]] = {
        "bare": lambda: train(
            name, classes, device, lambda: on_device(inputs, targets, settings.batch)
        ),
        "resident": lambda: through_crossbias(
            name, data, settings, device, resident_bytes=data.inputs.nbytes
        ),
        "fed": lambda: through_crossbias(name, data, settings, device, resident_bytes=fed),
        "decoded": lambda: train(
            name, classes, device,
            lambda: ((part.to(device, non_blocking=True) for part in batch) for batch in files),
        ),
    }  # fmt: skip
    rates = {}
    for way, epochs in ways.items():
        rates[way] = len(data) / min(epochs()[1:])
        print(f"{name}, {way}: {rates[way]:.0f} images a second", flush=True)
    found = {way: round(rate) for way, rate in rates.items()}
    shares = {f"{way} / bare": round(rates[way] / rates["bare"], 3) for way in ("resident", "fed")}
    return found | shares | {"fed / decoded": round(rates["fed"] / rates["decoded"], 2)}


def main() -> None:
    device, root = device_named(), os.environ.get("CROSSBIAS_DATA")
    if root is None:
        raise CrossbiasError("set CROSSBIAS_DATA to the folder that contains bar/train")
    settings = SETTINGS[device]
    with tempfile.TemporaryDirectory() as scratch:
        folder, cache = Path(scratch, "images"), Path(scratch, "cache")
        folder.mkdir()
        copied(Path(root, "bar", "train"), folder, settings.copies)
        images = torchvision.datasets.ImageFolder(str(folder))
        paths = [Path(path) for path, _ in images.samples]
        inputs, digest = read_images(paths, Fit(settings.size), cache=cache)
        data = BiasedDataset(inputs=inputs, targets=torch.tensor(images.targets), digest=digest)
        for name in sys.argv[2:] or settings.networks:
            found = measured(name, data, folder, settings, device)
            keep("device_feeding", {"images": len(data)} | found, device, part=name)


if __name__ == "__main__":
    main()
