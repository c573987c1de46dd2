"""Pictures of training samples, and maps of where a model looks and is told to look (IE)."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from crossbias.report.overlay import overlay, png
from crossbias.runs.read import FinishedRun


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


_SHOWN = 6


def guidance_rows(run: FinishedRun) -> list[MapRow]:
    """Pictures with both maps; empty where the run kept none or they do not fit together.

    The figure ``guidance`` reads two stages: pictures of samples, ``(k, C, H, W)`` uint8, and
    their maps E(z) and IE(z), ``(k, 2, h, w)``. IE(z) is at least 1
    everywhere; what is drawn is how far it lies above.
    """
    stages = run.stages_of("guidance", 2)
    if stages is None:
        return []
    pictures, maps = stages
    if pictures.ndim != 4 or maps.ndim != 4 or maps.shape[:2] != (len(pictures), 2):
        return []
    shown = maps[:_SHOWN].float()
    return map_rows(pictures[:_SHOWN], {"E(z)": shown[:, 0], "IE(z)": shown[:, 1] - 1})
