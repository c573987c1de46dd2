"""Small data and networks that every test may ask for."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import hypothesis
import pytest
import torch
from torch import nn

from crossbias import BiasedDataset, Network

# The same examples every time: a failure is of the change at hand, and can be repeated.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


def make_data(samples: int = 48, classes: int = 3, *, seed: int = 0, split: str = "train"):
    """Images whose first channel's brightness is the class and second's the bias, with noise."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(samples) % classes
    conflicting = torch.rand(samples, generator=generator) < 0.25
    shift = torch.randint(1, classes, (samples,), generator=generator)
    biases = torch.where(conflicting, (targets + shift) % classes, targets)
    images = torch.randint(0, 60, (samples, 3, 6, 6), generator=generator)
    images[:, 0] += 60 * targets[:, None, None]
    images[:, 1] += 60 * biases[:, None, None]
    return BiasedDataset(
        inputs=images.to(torch.uint8),
        targets=targets,
        attributes={"color": biases},
        bias="color",
        name="tiny",
        split=split,
        alignments={"color": torch.eye(classes, dtype=torch.bool)},
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    )


def make_network(classes: int = 3, *, dropout: float = 0.1) -> Network:
    body = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(dropout)
    )
    return Network(body, nn.Linear(6, classes))


@pytest.fixture
def data() -> BiasedDataset:
    return make_data()


@pytest.fixture
def validation() -> BiasedDataset:
    return make_data(30, seed=1, split="validation")


@pytest.fixture
def network() -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make_network()


@pytest.fixture
def without_waiting() -> Callable[[], AbstractContextManager[None]]:
    """A context in which it is an error to wait for the GPU."""

    @contextmanager
    def context() -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return context
