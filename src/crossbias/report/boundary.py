"""Decision boundaries of a model whose inputs are two numbers."""

from markupsafe import Markup
from matplotlib.figure import Figure

from crossbias.report.planes import scatter
from crossbias.report.runs import RunFolder
from crossbias.report.svg import INK, inline, page_style


def decision_boundary(name: str, run: RunFolder, number: int) -> Markup | None:
    """What the model answers in the plane, and the samples; None where inputs are not 2-D.

    Args:
        name: The run's name, for the description.
        run: The run.
        number: The figure's number among the boundaries of the page.
    """
    views = run.views.get(run.split)
    if views is None or views.boundary is None:
        return None
    left, right, bottom, top = views.boundary.limits.tolist()
    targets = run.predictions[run.split].target[views.rows]
    answers = views.boundary.answers.numpy()
    with page_style(f"boundary {number}"):
        figure = Figure(figsize=(3.6, 3.6))
        axes = figure.subplots()
        edges = [number + 0.5 for number in range(len(run.test.classes) - 1)]
        axes.imshow(
            answers, extent=(left, right, bottom, top), origin="lower", aspect="auto",
            cmap="viridis", vmin=0, vmax=max(len(run.test.classes) - 1, 1), alpha=0.35,
        )  # fmt: skip
        if answers.min() < answers.max():
            axes.contour(
                answers, levels=edges, colors=INK, linewidths=1.2, origin="lower",
                extent=(left, right, bottom, top),
            )  # fmt: skip
        scatter(axes, views.boundary.points, targets, run.test.classes, "class")
        axes.set_xlabel("first input")
        axes.set_ylabel("second input")
        return inline(figure, f"{name}: what is answered in the plane, with {len(targets)} samples")
