"""The accuracy for each value of an attribute, with intervals, as a figure."""

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from crossbias.answers.grids_of_answers import lowest
from crossbias.answers.intersections import Attribute
from crossbias.answers.samples import BETWEEN
from crossbias.answers.verification import Verification
from crossbias.formatting import percent, short
from crossbias.report.svg import FAINT, INK, SERIES, inline, page_style
from crossbias.verify import Estimate

_MOST = 25  # values that are drawn: those of lowest accuracy of the first model
_MARKERS = "oDs^v"


def values_chart(found: Verification, attribute: Attribute, number: int) -> Markup:
    """Accuracy and interval of each value for up to five models; a line marks all samples."""
    models = list(found.models.values())[: len(SERIES)]
    names = [each.value for each in lowest(models[0].attributes[attribute].values, _MOST)]
    title = BETWEEN.join(attribute)
    with page_style(f"values {number}"):
        letters = max((len(short(name, 24)) for name in names), default=1)
        height = 0.9 + max(0.3, 0.16 * len(models)) * len(names)
        figure = Figure(figsize=(3.4 + 0.065 * letters, height))
        axes = figure.subplots()
        for place, model in enumerate(models):
            accuracies = {
                each.value: each.numbers["accuracy"] for each in model.attributes[attribute].values
            }
            off = 0.16 * (place - (len(models) - 1) / 2)
            axes.axvline(
                model.numbers["accuracy"].value, color=SERIES[place], linewidth=0.8, linestyle=":"
            )
            for row, name in enumerate(names):
                if name in accuracies:
                    _mark(axes, row + off, accuracies[name], place)
        axes.set_yticks(range(len(names)), [short(name, 24) for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlabel(f"Accuracy for each {short(title, 30)}")
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.grid(axis="x", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0, labelcolor=INK)
        return inline(figure, _description(found, attribute, names))


def _mark(axes: Axes, row: float, number: Estimate, place: int) -> None:
    axes.plot([number.low, number.high], [row, row], color=SERIES[place], linewidth=1.4)
    axes.plot(
        number.value, row, color=SERIES[place], marker=_MARKERS[place], markersize=5.5,
        linestyle="none",
    )  # fmt: skip


def _description(found: Verification, attribute: Attribute, names: list[str]) -> str:
    first = found.first.attributes[attribute].values
    said = [
        f"{each.value} {percent(each.numbers['accuracy'].value)}"
        for each in first
        if each.value in set(names)
    ]
    return f"Accuracy of {found.first.name} for each {BETWEEN.join(attribute)}: {', '.join(said)}."
