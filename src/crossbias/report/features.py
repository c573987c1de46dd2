"""Features in two dimensions, colored by class and by bias."""

from markupsafe import Markup
from matplotlib.figure import Figure

from crossbias.report.planes import principal_plane, scatter
from crossbias.report.runs import RunFolder
from crossbias.report.svg import inline, page_style
from crossbias.report.words import percent
from crossbias.types import UNKNOWN


def feature_planes(name: str, run: RunFolder, number: int) -> Markup | None:
    """What the head sees, in the plane in which it varies most; None where it was not kept.

    Two panels of the same points: where classes separate, the features tell them apart; where
    bias values do, the features still carry the bias.

    Args:
        name: The run's name, for the description.
        run: The run.
        number: The figure's number among the features of the page.
    """
    views = run.views.get(run.split)
    if views is None or len(views.rows) < 3:
        return None
    points, shares = principal_plane(views.features)
    found = run.predictions[run.split]
    panels = [("class", found.target[views.rows], run.test.classes)]
    bias = found.attributes.get(run.bias or "")
    if run.bias and bias is not None and bool((bias[views.rows] != UNKNOWN).any()):
        panels.append((run.bias, bias[views.rows], run.test.biases))
    with page_style(f"features {number}"):
        figure = Figure(figsize=(3.6, 3.7 * len(panels)))
        grid = figure.subplots(len(panels), squeeze=False)
        for axes, (title, labels, names) in zip(grid.flat, panels, strict=True):
            scatter(axes, points, labels, names, title)
            axes.set_xlabel(f"first component, {percent(shares[0])} of the variance", size=8)
            axes.set_ylabel(f"second component, {percent(shares[1])}", size=8)
        shown = f"{len(points)} samples in the plane of the two principal components"
        kept = f"which hold {percent(sum(shares))} of the variance"
        return inline(figure, f"{name}: features of {shown}, {kept}")
