"""Figures that only some runs have: one gallery for each kind of figure."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from crossbias.report.confusion import confusion_matrices
from crossbias.report.planes import decision_boundary, denoiser_scatter, feature_planes
from crossbias.report.sampling_matrix import sampling_matrix
from crossbias.runs.read import FinishedRun

Draw = Callable[[str, FinishedRun, int], Markup | None]
"""Draws a run's figure, from the run's name for the description, the run, and the figure's number
among those of its kind; None where the run has none."""


class FigureKind(NamedTuple):
    """One kind of figure."""

    identifier: str
    title: str
    text: str
    wide: bool  # whether each figure has a line of its own
    draw: Draw


class Gallery(NamedTuple):
    """The figures of one kind, and the runs that have none."""

    kind: FigureKind
    figures: list[tuple[str, Markup]]  # run's name, figure
    missing: list[str]


KINDS: Final = (
    FigureKind(
        "sampling",
        "Which training samples were drawn",
        "The share of the draws (or of the weight in the loss) that each group of the training "
        "data received, in percent. Aligned groups are framed.",
        False,
        sampling_matrix,
    ),
    FigureKind(
        "confusion",
        "One color at a time",
        "In each of these test sets, all samples have the same color. A cell is the share of a "
        "class (row) that got an answer (column). A light column is an answer that the color "
        "gives by itself.",
        True,
        confusion_matrices,
    ),
    FigureKind(
        "boundaries",
        "Decision boundaries",
        "What each model answers over the plane of its two inputs, with some test samples.",
        False,
        decision_boundary,
    ),
    FigureKind(
        "features",
        "Features in the plane",
        "The features of some test samples, projected onto the two directions in which they vary "
        "most. Where marks of one kind lie apart, the features separate that kind.",
        False,
        feature_planes,
    ),
    FigureKind(
        "denoiser",
        "Which labels were taken for noise",
        "The loss of each training sample against the entropy of the de-noiser's answer. Samples "
        "above the line were dropped: their loss is high for how sure the model is.",
        False,
        denoiser_scatter,
    ),
)


def galleries(names: Sequence[str], runs: Sequence[FinishedRun]) -> list[Gallery]:
    """A gallery for each kind of figure that at least one run has."""
    found = [_gallery(kind, names, runs) for kind in KINDS]
    return [gallery for gallery in found if gallery.figures]


def _gallery(kind: FigureKind, names: Sequence[str], runs: Sequence[FinishedRun]) -> Gallery:
    drawn = [
        (name, kind.draw(name, run, number))
        for number, (name, run) in enumerate(zip(names, runs, strict=True))
    ]
    figures = [(name, figure) for name, figure in drawn if figure is not None]
    return Gallery(kind, figures, [name for name, figure in drawn if figure is None])
