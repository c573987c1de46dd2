"""Pictures of training samples, and maps of where a model looks and is told to look (IE)."""

from typing import NamedTuple

from crossbias.report.overlay import overlay, png
from crossbias.runs.read import FinishedRun

_SHOWN = 6


class MapRow(NamedTuple):
    """One kind of map of every picture."""

    title: str
    sources: list[str]  # data: addresses


def guidance_rows(run: FinishedRun) -> list[MapRow]:
    """Pictures, and both maps laid over them; empty where the run kept none or they do not fit.

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
    pictures, shown = pictures[:_SHOWN], maps[:_SHOWN].float()
    kinds = {"E(z)": shown[:, 0], "IE(z)": shown[:, 1] - 1}
    return [MapRow("picture", [png(picture) for picture in pictures])] + [
        MapRow(title, [overlay(*each) for each in zip(pictures, found, strict=True)])
        for title, found in kinds.items()
    ]
