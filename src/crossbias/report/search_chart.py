"""The search chart: the number by which a search chose, over each setting that it tried."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crossbias.formatting import setting, short
from crossbias.report.svg import CONFLICTING, FAINT, SERIES, inline, page_style
from crossbias.runs.sweeps import Search, Trial

_WIDE = 30.0  # ratio of largest to smallest from which an axis has orders of magnitude
_MOST = 4  # panels in one row


def search_chart(search: Search, number: int) -> Markup:
    """One panel for each setting; every finished trial is a dot, the chosen one a diamond."""
    finished = [trial for trial in search.trials if trial.value is not None]
    names = sorted({name for trial in finished for name in trial.settings})[:_MOST]
    with page_style(f"search {number}"):
        figure = Figure(figsize=(max(2.2 * len(names), 2.2), 2.2))
        grid = figure.subplots(1, max(len(names), 1), sharey=True, squeeze=False)[0]
        for axes, name in zip(grid, names, strict=False):
            _panel(axes, name, [trial for trial in finished if name in trial.settings], search)
        grid[0].set_ylabel(short(search.rule))
        return inline(figure, _description(search, names))


def _panel(axes: Axes, name: str, trials: Sequence[Trial], search: Search) -> None:
    places, labels = _places([trial.settings[name] for trial in trials])
    for place, trial in zip(places, trials, strict=True):  # all have a number
        chosen = trial.number == search.chosen
        color, marker = (CONFLICTING, "D") if chosen else (SERIES[0], "o")
        axes.plot(
            place, trial.value or 0.0, color=color, marker=marker, markersize=6, linestyle="none"
        )
    if labels:
        axes.set_xticks(range(len(labels)), [short(label) for label in labels])
    elif min(places) > 0 and max(places) / min(places) > _WIDE:
        axes.set_xscale("log")
    axes.set_xlabel(short(name))
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def _places(values: Sequence[Any]) -> tuple[list[float], list[str]]:
    """Where values are drawn; labels where they are not numbers."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values], []
    labels = list(dict.fromkeys(map(setting, values)))
    return [float(labels.index(setting(value))) for value in values], labels


def _description(search: Search, names: Sequence[str]) -> str:
    best = [trial for trial in search.trials if trial.number == search.chosen]
    chosen = "".join(
        f" The chosen trial {trial.number} has {search.rule} {trial.value:.4g}." for trial in best
    )
    return (
        f"{search.method}: {search.rule} of {len(search.trials)} trials over "
        f"{', '.join(names) or 'no setting'}.{chosen}"
    )
