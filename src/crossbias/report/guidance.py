"""E(z) and IE(z) of pairs of training samples, as IE's runs keep them (Figure 3 of the paper)."""

from typing import Final

from crossbias.report.maps import MapRow, map_rows
from crossbias.report.runs import RunFolder

STAGES: Final = ("guidance-pictures", "guidance-maps")
"""Pictures ``(k, C, H, W)`` uint8 of samples, and their maps ``(k, 2, h, w)``, E(z) and IE(z)."""

_SHOWN = 6


def guidance_rows(run: RunFolder) -> list[MapRow]:
    """Pictures with both maps; empty where the run kept none or they do not fit together.

    IE(z) is at least 1 everywhere; what is drawn is how far it lies above.
    """
    pictures, maps = (run.stage(name) for name in STAGES)
    if pictures is None or maps is None or pictures.ndim != 4 or maps.ndim != 4:
        return []
    if len(pictures) != len(maps) or maps.shape[1] != 2:
        return []
    shown = maps[:_SHOWN].float()
    return map_rows(pictures[:_SHOWN], {"E(z)": shown[:, 0], "IE(z)": shown[:, 1] - 1})
