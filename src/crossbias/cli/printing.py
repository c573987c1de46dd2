"""How the command line prints: plain text, tables, and metrics with their intervals."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossbias.formatting import DASH, percent, percent_range, percent_with_range, visible
from crossbias.verify import (
    Estimate,
    Metrics,
    about_detection,
    mean_over_corrupted_splits,
    rates_by_source,
)

_WIDTH = 120
_DETAILS = ("class average", "calibration error", "parity gap", "equalized-odds gap")
_COLUMNS = ("overall", "aligned", "conflicting", "unbiased", "worst group")


def make_console(*, stderr: bool = False) -> Console:
    """A console that is wide enough for the tables where the output is not a terminal."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDTH)


class _VisibleTable(Table):
    """A table whose cells cannot steer the terminal, whatever names are in them."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row of texts."""
        super().add_row(*(visible(str(cell)) for cell in cells), **options)


def make_table(*columns: str, title: str | None = None) -> Table:
    """An empty table in the common style."""
    table = _VisibleTable(
        title=title and escape(visible(title, keep="\n")),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for column in columns:
        table.add_column(escape(visible(column)), overflow="fold")
    return table


def say(text: str, *, stderr: bool = False) -> None:
    """Print text as it is, without markup, colors or line breaks."""
    text = visible(text, keep="\n")
    make_console(stderr=stderr).print(text, markup=False, highlight=False, soft_wrap=True)


def print_table(table: Table) -> None:
    """Print a table."""
    make_console().print(table)


def print_metrics(what: str, rows: Mapping[str, Metrics], *, selection: str = "last") -> None:
    """Print accuracies with intervals: a row for each name, then one for each attribute.

    ``selection`` is the rule by which the model was chosen.
    """
    table = make_table(what, *_COLUMNS, title="accuracy in % [95% interval]")
    labeled = {
        label: each
        for name, metrics in rows.items()
        for label, each in _with_attributes(name, metrics).items()
    }
    for label, each in labeled.items():
        accuracies = (each.overall, each.aligned, each.conflicting, each.unbiased)
        table.add_row(escape(label), *map(_cell, accuracies), _worst_cell(each))
    print_table(table)
    if note := next(filter(None, (each.worst_note for each in labeled.values())), None):
        say(f"{note}.")
    for label, each in labeled.items():
        for text in filter(None, (each.association_note, each.class_mix_note)):
            say(f"{label}: {text}")
    for name, metrics in rows.items():
        for text in filter(None, (metrics.cluster_note, metrics.warning)):
            say(f"{name}: {text}")
    if "validation" in rows and selection != "last":
        say(
            f"validation: the model was chosen by this split ({selection}), so its accuracies "
            f"there are too high"
        )
    corrupted = mean_over_corrupted_splits({name: row.overall for name, row in rows.items()})
    if corrupted.n:
        limits = percent_range(corrupted.low, corrupted.high)
        say(f"mean corruption accuracy: {percent(corrupted.value)} ({limits})")


def print_details(rows: Mapping[str, Metrics]) -> None:
    """Print class average, calibration and gaps of each split, and rates of classes."""
    table = make_table("split", *_DETAILS, title="\nin % [95% interval]")
    for name, metrics in rows.items():
        for label, each in _with_attributes(name, metrics).items():
            gaps = (each.demographic_parity, each.equalized_odds)
            cells = (each.class_averaged, each.calibration, *gaps)
            table.add_row(escape(label), *map(_cell, cells))
    print_table(table)
    if all(metrics.detection for metrics in rows.values()):
        _print_detection(rows)
    elif all(len(metrics.classes) == 2 for metrics in rows.values()):
        _print_recalls(rows)
    say("Intervals are over test samples: they are about this trained model, not about its method.")


def _print_recalls(rows: Mapping[str, Metrics]) -> None:
    """Print the recall of both classes for each bias value; no class is called positive."""
    first = next(iter(rows.values()))
    names = [f"recall of {name}" for name in first.classes]
    title = "\nrecall of each class for each bias value, in % [95% interval]"
    table = make_table("split", "bias", *names, "balanced accuracy", title=title)
    for name, metrics in rows.items():
        for rates in rates_by_source(
            metrics.cells, positive=first.classes[0], effects=metrics.cell_effects
        ):
            table.add_row(escape(name), escape(rates.source), *map(_cell, rates[1:]))
    if table.row_count:
        print_table(table)


def _print_detection(rows: Mapping[str, Metrics]) -> None:
    """Print how well the positive class is found, over all samples and for each bias value."""
    found = [
        (label, part, rates)
        for name, metrics in rows.items()
        for label, each in _with_attributes(name, metrics).items()
        if each.detection
        for part, rates in {"all": each.detection.overall, **each.detection.by_bias}.items()
        if part != "all" or label == name
    ]
    positive = next(each.detection.positive for each in rows.values() if each.detection)
    rate_names = (f"sensitivity for {positive.name}", "specificity", "prevalence", "PPV", "NPV")
    table = make_table("split", "samples", *rate_names, title="\nrates in % [95% interval]")
    others = make_table(
        *("split", "samples", f"AUC for {positive.name}", "Brier score"),
        *("calibration slope", "calibration intercept"),
        title="\nranking and probabilities [95% interval]",
    )
    for label, part, rates in found:
        start = (escape(label), escape(part))
        share = percent(rates.prevalence).rstrip("%")
        predictive = map(_cell, (rates.ppv, rates.npv))
        table.add_row(*start, *map(_cell, rates[1:3]), share, *predictive)
        others.add_row(*start, *map(_number, rates[5:]))
    print_table(table)
    print_table(others)
    for line in about_detection(positive):
        say(line)


def _with_attributes(name: str, metrics: Metrics) -> dict[str, Metrics]:
    """The metrics by the bias, then those by every other attribute."""
    others = {f"{name}, by {attribute}": each for attribute, each in metrics.attributes.items()}
    return {name: metrics, **others}


def _worst_cell(metrics: Metrics) -> str:
    """The lowest accuracy of a group, and of how many."""
    shown = _cell(metrics.worst_group and metrics.worst_group.accuracy)
    return shown if shown == DASH else f"{shown}, {metrics.worst_of}"


def _number(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.n:
        return DASH
    return escape(f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]")


def _cell(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.n:
        return DASH
    return escape(percent_with_range(estimate.value, estimate.low, estimate.high))
