"""Several maps of the same pictures, side by side, such as E(z) and IE(z) of IE."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from crossbias.report.overlay import overlay, png


class MapRow(NamedTuple):
    """One kind of map of every picture."""

    title: str
    sources: list[str]  # data: addresses


def map_rows(pictures: Tensor, maps: Mapping[str, Tensor]) -> list[MapRow]:
    """The pictures, and below them each kind of map laid over them.

    Args:
        pictures: ``(k, C, H, W)`` uint8.
        maps: For each title, ``(k, h, w)`` non-negative numbers; each map is drawn relative to
            its own largest number.
    """
    plain = MapRow("picture", [png(picture) for picture in pictures])
    return [plain] + [
        MapRow(title, [overlay(*each) for each in zip(pictures, found, strict=True)])
        for title, found in maps.items()
    ]
