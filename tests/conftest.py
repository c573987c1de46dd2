"""Small data and networks that every test may ask for.

Torch is imported in the fixtures: the process that hands the tests to others needs none.
"""

import ctypes
import functools
import gc
import importlib.metadata
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from benchmarks.processes import Program, stop

if TYPE_CHECKING:
    from crossbias import BiasedDataset, Network

# The same examples every time: a failure is of the change at hand, and can be repeated.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

# Modules stay until the end: the garbage collector need not look at them, now or later.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or libraries count at their end what is left of them, and complain


# Fabric reads the files of every installed package whenever a run begins; once is enough here.
importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)

# Torch looks for NVIDIA's library at every step of an optimizer, unless it is told of no device.
try:
    ctypes.CDLL("libnvidia-ml.so.1")
except OSError:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture
def own_images() -> Callable[[Path], Path]:
    """Write 40 images of two classes into a folder."""
    from PIL import Image

    def written(folder: Path) -> Path:
        for number in range(40):
            path = folder / ("dark", "light")[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), (60 + 130 * (number % 2) + number,) * 3).save(path)
        return folder

    return written


@pytest.fixture
def data() -> "BiasedDataset":
    from crossbias.testing import tiny_data

    return tiny_data()


@pytest.fixture
def validation() -> "BiasedDataset":
    from crossbias.testing import tiny_data

    return tiny_data(30, seed=1, split="validation")


@pytest.fixture
def network() -> "Network":
    from crossbias.testing import tiny_network

    return tiny_network()


@pytest.fixture
def onnx_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a small ONNX file into a new folder; arguments as for ``write_onnx``."""

    def write(
        shape: Sequence[object] = ("batch", 3, 4, 4),
        *,
        kind: str = "FLOAT",
        softmax: bool = False,
        features: bool = False,
        channels_last: bool = False,
        name: str = "model.onnx",
        metadata: dict[str, str] | None = None,
    ) -> Path:
        from .onnx_files import write_onnx

        write_onnx(
            tmp_path / name, shape, kind=kind, softmax=softmax, features=features,
            channels_last=channels_last, metadata=metadata or {},
        )  # fmt: skip
        return tmp_path / name

    return write


@pytest.fixture(scope="session")
def program() -> Iterator[type[Program]]:
    """Start Python code in a process of its own."""
    yield Program
    stop()


@pytest.fixture
def without_waiting() -> Callable[[], AbstractContextManager[None]]:
    """A context in which it is an error to wait for the GPU."""
    import torch

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


@pytest.fixture
def crossbias(monkeypatch, capsys, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Type a command in an empty folder; get exit code, output and errors."""
    from crossbias.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))

    def typed(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["crossbias", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return typed
