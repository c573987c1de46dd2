"""Time and peak memory of each step of the loop, for more and more rows of tiny images."""

import io
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.measure import apart, in_a_process, seconds
from crossbias.data import pack
from crossbias.data.memory_maps import CACHE_VARIABLE

SIDE = 8
PICTURES = 500  # different images; labels differ in all rows
PROGRAM = "from crossbias.cli import main; main()"
COLUMNS = ("--target", "shape", "--bias", "place")


def measured(rows: int) -> dict[str, Any]:
    """Seconds and megabytes of each command on so many rows, each in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        packing = seconds(partial(apart, _pack, rows, folder / "tars"))
        found: dict[str, Any] = {"rows": rows, "pack": {"seconds": round(packing, 2)}}
        environment = {CACHE_VARIABLE: str(folder / "cache"), "OMP_NUM_THREADS": "2"}
        for name, arguments in _commands().items():
            found[name] = in_a_process(PROGRAM, arguments, folder, environment)
            print(rows, name, found[name], flush=True)
    return found


def growth(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """How many times as long and as large the most rows are, against the next smaller number."""
    few, many = found[-2:]
    return {
        name: {
            unit: round(many[name][unit] / max(few[name][unit], 1e-9), 2)
            for unit in few[name]
        }
        for name in few
        if name != "rows"
    }  # fmt: skip


def _commands() -> dict[str, tuple[str, ...]]:
    data, size = ("webdataset:tars", *COLUMNS), ("--set", f"size={SIDE}")
    shown = ("data", "show", *data, *size, "--sheet", "sheet.png")
    settings = (f"data.size={SIDE}", "train.epochs=1", "train.batch_size=512")
    words = [word for each in settings for word in ("--set", each)]
    train = ("train", "--data", *data, "--method", "erm", "--network", "small-convnet")
    return {
        "load, first time": shown,
        "load": shown,
        "audit": ("audit", "--data", *data, *size, "--out", "audited"),
        "one epoch": (*train, *words, "--out", "run"),
        "evaluate": ("evaluate", "run"),
        "report": ("report", "run", "-o", "page.html"),
    }


def _pack(rows: int, folder: Path) -> None:
    pack(_samples(rows), folder, tar_bytes=2**28)


def _samples(rows: int) -> Iterator[dict[str, Any]]:
    """Tiny images of three shapes at three places that go along with them."""
    draw = np.random.default_rng(0)
    pictures = [_picture(draw.integers(0, 256, (SIDE, SIDE, 3))) for _ in range(PICTURES)]
    shapes, others = draw.integers(0, 3, rows), draw.random(rows) < 0.2
    places = np.where(others, draw.integers(0, 3, rows), shapes)
    splits = draw.choice(["train", "validation", "test"], rows, p=[0.7, 0.1, 0.2])
    for row in range(rows):
        yield {
            "image": pictures[(3 * row + int(shapes[row])) % PICTURES],
            "shape": f"shape {shapes[row]}",
            "place": f"place {places[row]}",
            "split": str(splits[row]),
        }


def _picture(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, format="PNG")
    return file.getvalue()
