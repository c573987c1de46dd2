"""A training step of the papers' networks in other forms: which is faster, and what it costs.

Each form is a bare step on one batch that stays on the device. On CUDA it is replayed as a graph
like those of a training. The forms: as crossbias trains it; channels first in memory; kernels
that cuDNN proposes, instead of the fastest that it finds; convolutions of cuDNN where crossbias
has its own by Fourier coefficients; batch normalization and ReLU as layers of their own, where
crossbias has one kernel, and as one kernel of torch.compile; images of 3 channels padded to 8 with
zeros. The start is the time of the
first steps, in which kernels are searched or compiled.

    python -m benchmarks.step_forms [cpu | cuda] [NETWORK ...]
"""

import copy
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from benchmarks.measure import device_named, keep, seconds
from crossbias import Network
from crossbias.networks.fourier import FourierConv2d
from crossbias.networks.fused import FusedSequential

FIRST_STEPS = 4  # before a graph is recorded
STEPS = {"cuda": 200, "cpu": 2}


@dataclass(frozen=True)
class Subject:
    """A network and what a step of it sees."""

    network: str
    side: int
    batch: int
    bf16: bool


SUBJECTS = {
    "ConvNet of ReBias": Subject("convnet", 28, 256, bf16=True),
    "Simple ConvNet-1, 28 pixels": Subject("simple-convnet-1", 28, 256, bf16=False),
    "Simple ConvNet-1, 56 pixels": Subject("simple-convnet-1", 56, 256, bf16=False),
    "LNL's ConvNet": Subject("lnl-convnet", 28, 128, bf16=False),
    "ResNet-18, 64 pixels": Subject("resnet18", 64, 64, bf16=False),
}


class NormalizedReLU(nn.Module):
    """Batch normalization and ReLU, compiled together."""

    def __init__(self, normalization: nn.BatchNorm2d) -> None:
        super().__init__()
        self.normalization = normalization
        self.together = torch.compile(lambda maps: F.relu(normalization(maps)))

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of the same size."""
        found: Tensor = self.together(maps)
        return found


class PaddedConvolution(nn.Module):
    """A convolution of 3 channels as one of 8, five of which are zero."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, images: Tensor) -> Tensor:
        """What the convolution gives."""
        own = self.convolution
        images, weight = (F.pad(part, (0, 0, 0, 0, 0, 5)) for part in (images, own.weight))
        return F.conv2d(images, weight, own.bias, own.stride, own.padding)


def _fused(network: Network) -> None:
    """Put every batch normalization that a ReLU follows into one module with it."""
    for parent in network.modules():
        names = list(parent._modules) if isinstance(parent, nn.Sequential) else []
        for name, following in itertools.pairwise(names):
            one, other = parent.get_submodule(name), parent.get_submodule(following)
            if isinstance(one, nn.BatchNorm2d) and isinstance(other, nn.ReLU):
                parent._modules[name] = NormalizedReLU(one)
                parent._modules[following] = nn.Identity()


def _with_cudnn(network: Network) -> None:
    """Compute every convolution as torch does."""
    for module in network.modules():
        if isinstance(module, FourierConv2d):
            module.__class__ = nn.Conv2d


def _in_layers(network: Network) -> None:
    """Compute every batch normalization and every ReLU by itself."""
    for module in network.modules():
        if isinstance(module, FusedSequential):
            module.__class__ = nn.Sequential


def _padded(network: Network) -> None:
    """Pad what the first convolution sees."""
    name, first = next(
        (name, module) for name, module in network.named_modules() if isinstance(module, nn.Conv2d)
    )
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, PaddedConvolution(first))


FORMS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "channels first": {"layout": torch.contiguous_format},
    "proposed kernels": {"search": False},
    "convolutions of cuDNN": {"change": _with_cudnn},
    "normalization and ReLU as layers": {"change": _in_layers},
    "normalization and ReLU compiled": {"change": _fused},
    "padded colors": {"change": _padded},
}


def measured(
    subject: Subject,
    device: str,
    *,
    layout: torch.memory_format = torch.channels_last,
    search: bool = True,
    change: Callable[[Network], None] | None = None,
) -> dict[str, float]:
    """Milliseconds of a step and seconds of the start."""
    network = copy.deepcopy(crossbias.create(subject.network, num_classes=10))
    if change is not None:
        change(network)
    network = network.to(device).to(memory_format=layout).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(subject.batch, 3, subject.side, subject.side, device=device)
    images = images.contiguous(memory_format=layout)
    target = torch.arange(subject.batch, device=device) % 10

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=subject.bf16):
            logits = network(images).logits
        optimizer.zero_grad()
        F.cross_entropy(logits.float(), target).backward()
        optimizer.step()

    with torch.backends.cudnn.flags(enabled=True, benchmark=search):
        start = seconds(lambda: [step() for _ in range(FIRST_STEPS)])
        again = _replayed(step) if device == "cuda" else step
        again()
        spent = seconds(lambda: [again() for _ in range(STEPS[device])])
    return {"ms": round(1000 * spent / STEPS[device], 3), "start": round(start, 2)}


def _replayed(step: Callable[[], None]) -> Callable[[], None]:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
    return graph.replay


def main() -> None:
    device, chosen = device_named(), sys.argv[2:]
    found: dict[str, dict[str, Any]] = {}
    subjects = {
        name: subject for name, subject in SUBJECTS.items()
        if not chosen or subject.network in chosen
    }  # fmt: skip
    for name, subject in subjects.items():
        for form, options in FORMS.items():
            began = time.perf_counter()
            try:
                result: Any = measured(subject, device, **options)
            except Exception as error:  # a form that this network or this torch does not allow
                result = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            found.setdefault(name, {})[form] = result
            print(name, "|", form, result, f"{time.perf_counter() - began:.1f} s", flush=True)
    keep("step_forms", found, device)


if __name__ == "__main__":
    main()
