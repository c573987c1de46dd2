"""Image files for tests, made where they are used."""

from pathlib import Path

import numpy as np
from PIL import Image


def noise(width: int = 40, height: int = 30, *, seed: int = 0, channels: int = 3) -> np.ndarray:
    """Smooth random pixels, (height, width, channels), which survive compression fairly well."""
    draw = np.random.default_rng(seed)
    small = draw.integers(0, 256, (4, 4, channels), dtype=np.uint8)
    bands = [Image.fromarray(small[:, :, band]) for band in range(channels)]
    return np.stack([np.asarray(band.resize((width, height))) for band in bands], 2)


def save(path: Path, pixels: np.ndarray) -> Path:
    """Write an image in the format of the path's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.squeeze()).save(path)
    return path


def some_files(folder: Path, count: int = 5) -> list[Path]:
    """PNG files of different content and size."""
    return [
        save(folder / f"{number}.png", noise(30 + number % 20, 40 - number % 20, seed=number))
        for number in range(count)
    ]
