"""LNL's colored MNIST against what is known of its authors' own file. See conftest.py."""

import math

import numpy as np
import torch
from PIL import Image
from scipy import stats

from crossbias import load
from crossbias.data.generated.coloring import LNL
from crossbias.data.generated.originals import load_original
from crossbias.data.source import data_root

ROOT = data_root()

AUTHORS_MEANS = [
    *(214.70, 41.80, 79.79, 34.84, 127.88, 127.66, 225.27, 211.59, 45.27, 34.59, 133.09, 191.17),
    *(221.57, 128.70, 56.98, 143.68, 46.69, 183.89, 73.00, 219.81, 219.06, 223.65, 186.22, 186.28),
    *(201.85, 221.74, 65.34, 127.96, 30.50, 39.47),
]
"""Mean color of each class in the authors' training file of variance .02.

As github wearepal/nifr prints it in notebooks/ln2l_data_analysis.ipynb, from the first three
numbers above 2 of every image.
"""


def first_three(numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The first three wanted numbers of each row; ``wanted`` loses them."""
    rows, found = np.arange(len(numbers)), []
    for _ in range(3):
        first = wanted.argmax(1)
        found.append(numbers[rows, first])
        wanted[rows, first] = False
    return np.stack(found, 1)


def test_lnl_colors_have_the_mean_of_the_authors_in_every_class() -> None:
    """30 means of about 6,000 images each, in ours and in theirs."""
    data = load("colored-mnist-lnl", "train", sigma2=0.02)
    pixels = data.inputs.permute(0, 2, 3, 1).flatten(1).numpy()  # (n, H W C)
    seen = torch.from_numpy(first_three(pixels, pixels > 2)).double()
    squares = 0.0
    for digit in range(10):
        own = seen[data.targets == digit]
        expected = torch.tensor(AUTHORS_MEANS[3 * digit : 3 * digit + 3], dtype=torch.float64)
        error = own.var(0) * 2 / len(own)  # of a difference of two means
        squares += float(((own.mean(0) - expected).square() / error).sum())
    assert squares < stats.chi2(30).ppf(0.999)


def test_lnl_images_are_drawn_as_the_authors_are() -> None:
    """300 of their images: one flat color where MNIST is above 128, around the class's mean."""
    sheet = torch.from_numpy(
        np.array(Image.open(ROOT / "lnl" / "authors-first-300.png").convert("RGB"))
    )
    tiles = sheet.view(10, 28, 30, 28, 3).permute(0, 2, 4, 1, 3).reshape(300, 3, 28, 28)
    digits, labels = load_original("mnist", "train", root=ROOT)
    ink = digits[:300] > 128
    color = tiles.amax((2, 3))
    assert torch.equal(tiles, color[:, :, None, None] * ink[:, None])
    assert color.min() >= 1
    assert color.max() <= 254
    off = color - torch.tensor(list(LNL.values()))[labels[:300]]
    assert off.float().pow(2).mean().sqrt().item() < 1.05 * math.sqrt(0.02) * 255
