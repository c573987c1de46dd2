"""The de-noiser's loss on each training sample against its entropy (PGD, Figure 6)."""

import torch
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from crossbias.report.svg import CONFLICTING, FAINT, INK, SERIES, inline, page_style
from crossbias.runs.read import FinishedRun

_MOST = 2000  # at most this many marks are drawn, evenly spread over the samples


def denoiser_scatter(name: str, run: FinishedRun, number: int) -> Markup | None:
    """Samples below the line are kept, those above dropped; None without a de-noiser.

    The figure ``denoiser`` reads three stages: the loss and the softmax entropy of each training
    row, and the threshold, delta of eq. 2.
    """
    stages = run.stages_of("denoiser", 3)
    if stages is None:
        return None
    losses, entropies, threshold = stages
    rows = run.labels.index if run.labels is not None else torch.arange(len(losses))
    losses, entropies, delta = losses[rows].float(), entropies[rows].float(), float(threshold)
    kept = int((losses < delta * entropies).sum())
    with page_style(f"denoiser {number}"):
        figure = Figure(figsize=(4.4, 3.2))
        _draw(figure.subplots(), losses, entropies, delta)
        told = f"{kept} of {len(losses)} training samples are kept"
        return inline(figure, f"{name}: {told}, those with a loss below {delta:.3g} times entropy")


def _draw(axes: Axes, losses: Tensor, entropies: Tensor, delta: float) -> None:
    clean = losses < delta * entropies
    step = max(1, len(losses) // _MOST)
    for kept, marker, color in ((True, "o", SERIES[0]), (False, "x", CONFLICTING)):
        own = (clean == kept).nonzero().squeeze(1)[::step]
        label = f"{'kept' if kept else 'dropped'} ({int((clean == kept).sum())})"
        points = (entropies[own].numpy(), losses[own].numpy())
        axes.plot(*points, marker, color=color, markersize=2.5, label=label)
    end = float(entropies.max())
    axes.plot([0, end], [0, delta * end], color=INK, linewidth=1.2, label="threshold")
    axes.set_xlabel("entropy of the answer")
    axes.set_ylabel("loss")
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8)
