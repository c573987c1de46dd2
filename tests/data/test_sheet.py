"""The contact sheet shows which samples it says it shows."""

import pytest
import torch

from crossbias.data import BiasedDataset
from crossbias.data.inspect.sheet import _HEADER, _LABEL, CELL, EACH, contact_sheet
from crossbias.errors import CrossbiasError


def make(channels: int = 3, biases: list[int] | None = None) -> BiasedDataset:
    """Twelve flat images, each with its own brightness."""
    values = torch.arange(12)
    images = (20 * values).to(torch.uint8).view(12, 1, 1, 1).expand(12, channels, 10, 10)
    return BiasedDataset(
        inputs=images.contiguous(),
        targets=values % 2,
        attributes={"color": torch.tensor(biases or [0, 1, 1, 0] * 3)},
        bias="color",
        values={"color": ("red", "blue")},
        alignments={"color": torch.eye(2, dtype=torch.bool)},
    )


def level(sheet, block: int, row: int, place: int) -> int:
    """Brightness of one sample on the sheet."""
    left = _LABEL + block * (EACH * CELL + 14) + place * CELL
    return sheet.getpixel((left + 10, _HEADER + row * CELL + 10))[0]


@pytest.mark.parametrize("channels", [1, 3])
def test_aligned_left_and_conflicting_right_row_by_row(channels):
    data = make(channels)
    sheet = contact_sheet(data)
    aligned = (data.targets == data.biases).nonzero().squeeze(1).tolist()
    for block, rows in enumerate((aligned, [r for r in range(12) if r not in aligned])):
        for target in (0, 1):
            expected = [20 * row for row in rows if row % 2 == target]
            found = [level(sheet, block, target, place) for place in range(len(expected))]
            assert found == expected


def test_unknown_bias_gives_one_block():
    assert contact_sheet(make(biases=[-1] * 12)).width < contact_sheet(make()).width


def test_vectors_have_no_sheet():
    data = BiasedDataset(inputs=torch.zeros(4, 2), targets=torch.tensor([0, 1, 0, 1]))
    with pytest.raises(CrossbiasError, match="has vectors, not images"):
        contact_sheet(data)
