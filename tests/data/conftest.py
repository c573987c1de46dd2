"""Small files in the format of MNIST and Fashion-MNIST, and the real files where they exist."""

import gzip
import hashlib
import os
import struct
from pathlib import Path

import pytest
import torch
from torch import Tensor

from crossbias.data.assignment import below
from crossbias.data.generated import originals
from crossbias.data.generated.strokes import draw
from crossbias.seeds import generator_for

PARTS = {"train": 600, "t10k": 200}
REAL = [
    Path(os.environ.get("CROSSBIAS_DATA", "absent"), collection, f"{name}.gz")
    for collection, names in originals.CHECKSUMS.items()
    for name in names
]

ROOT = Path(os.environ.get("CROSSBIAS_DATA", "absent"))
NEEDS = {
    "test_real_mnist.py": ("the original files of mnist and fashion-mnist", REAL),
    "test_real_lnl.py": (
        "mnist and lnl/authors-first-300.png",
        [*REAL, ROOT / "lnl/authors-first-300.png"],
    ),
    "test_real_tables.py": ("the original files of mnist and fashion-mnist", REAL),
    "test_real_images.py": ("bar and covid-cxr", [ROOT / "bar", ROOT / "covid-cxr/metadata.csv"]),
}
collect_ignore = [
    name for name, (_, files) in NEEDS.items() if not all(path.exists() for path in files)
]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that were left out."""
    for name in collect_ignore:
        terminalreporter.write_line(
            f"left out: tests/data/{name}, which needs {NEEDS[name][0]} in CROSSBIAS_DATA"
        )


def idx(content: Tensor) -> bytes:
    """An idx file: magic number, dimensions, and the bytes."""
    header = struct.pack(f">BBBB{content.ndim}I", 0, 0, 8, content.ndim, *content.shape)
    return header + content.numpy().tobytes()


def drawn(collection: str, part: str) -> tuple[Tensor, Tensor]:
    """Drawn digits and their labels; the classes differ in size."""
    labels = below(10, PARTS[part], generator=generator_for(0, collection, part, "labels"))
    images = draw(labels, image_size=28, generator=generator_for(0, collection, part, "images"))
    return images, labels


@pytest.fixture(scope="session")
def small_root(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, str]]]:
    """A data root with small collections, and the checksums of their files."""
    root = tmp_path_factory.mktemp("root")
    sums: dict[str, dict[str, str]] = {}
    for collection in originals.CHECKSUMS:
        (root / collection).mkdir()
        sums[collection] = {}
        for part in PARTS:
            images, labels = drawn(collection, part)
            files = {"images-idx3-ubyte": images, "labels-idx1-ubyte": labels.to(torch.uint8)}
            for name, content in files.items():
                raw = idx(content)
                (root / collection / f"{part}-{name}.gz").write_bytes(gzip.compress(raw, mtime=0))
                sums[collection][f"{part}-{name}"] = hashlib.sha256(raw).hexdigest()
    return root, sums


@pytest.fixture
def small_originals(
    small_root: tuple[Path, dict[str, dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The small collections replace the real ones and are found by default."""
    root, sums = small_root
    monkeypatch.setattr(originals, "CHECKSUMS", sums)
    monkeypatch.setenv("CROSSBIAS_DATA", str(root))
    return root
