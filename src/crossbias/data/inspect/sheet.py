"""A contact sheet: a picture with aligned and conflicting samples of each class side by side."""

from typing import Final

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.formatting import short
from crossbias.types import UNKNOWN

CELL: Final = 72  # side of a sample in pixels
EACH: Final = 6  # samples of each kind in a row

CLASSES: Final = 12  # largest number of rows; only the first classes are shown

_MARGIN, _LABEL, _HEADER, _GAP = 10, 120, 26, 14
_INK, _FAINT, _PAPER = (20, 20, 20), (110, 110, 110), (255, 255, 255)


def contact_sheet(data: BiasedDataset) -> Image.Image:
    """A row of samples for each class: aligned on the left, conflicting on the right.

    Samples are the first of their kind in the data, with as many different bias values as
    possible. If no bias is known, a single block shows samples of each class.
    """
    if data.inputs.ndim not in (4, 5):
        raise CrossbiasError(f"{data.name} has vectors, not images; a contact sheet needs images")
    blocks = _blocks(data)
    rows = min(data.num_classes, CLASSES)
    width = _LABEL + len(blocks) * (EACH * CELL + _GAP) + _MARGIN
    sheet = Image.new("RGB", (width, _HEADER + rows * CELL + _MARGIN), _PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    for number, (title, mask) in enumerate(blocks.items()):
        left = _LABEL + number * (EACH * CELL + _GAP)
        draw.text((left, 6), f"{title} ({int(mask.sum()):,})", fill=_INK, font=font)
        for target in range(rows):
            found = _varied(data, mask & (data.targets == target))
            if not found:
                draw.text((left, _HEADER + target * CELL + 24), "none", fill=_FAINT, font=font)
            for place, row in enumerate(found):
                corner = (left + place * CELL, _HEADER + target * CELL)
                sheet.paste(_picture(data.inputs[row]), corner)
    for target in range(rows):
        name = short(data.classes[target], 16)
        draw.text((_MARGIN, _HEADER + target * CELL + 26), name, fill=_INK, font=font)
    return sheet


def _blocks(data: BiasedDataset) -> dict[str, Tensor]:
    known = data.biases != UNKNOWN
    if not known.any():
        return {"bias not known": ~known}
    aligned = data.alignment()[data.targets, data.biases.clamp(min=0)]
    return {"aligned": known & aligned, "conflicting": known & ~aligned}


def _varied(data: BiasedDataset, mask: Tensor) -> list[int]:
    """The first rows of a mask, with as many different bias values as possible."""
    rows = mask.nonzero().squeeze(1).tolist()
    seen: dict[int, int] = {}
    turn = []
    for row in rows:
        bias = int(data.biases[row])
        seen[bias] = seen.get(bias, 0) + 1
        turn.append((seen[bias], row))
    return [row for _, row in sorted(turn)[:EACH]]


def _picture(pixels: Tensor) -> Image.Image:
    """A sample (C, H, W), or the middle frame of a clip (C, T, H, W), as a square picture."""
    if pixels.ndim == 4:
        pixels = pixels[:, pixels.shape[1] // 2]
    colors = pixels.expand(3, -1, -1) if len(pixels) == 1 else pixels
    image = Image.fromarray(colors.permute(1, 2, 0).contiguous().numpy())
    side = CELL - 4
    filter_ = Image.Resampling.NEAREST if max(image.size) < side else Image.Resampling.BILINEAR
    return image.resize((side, side), filter_)
