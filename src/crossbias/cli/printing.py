"""How the command line prints: plain text, tables, and metrics with their intervals."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossbias.formatting import DASH, percent, percent_range, percent_with_range, visible
from crossbias.verify import Estimate, Metrics, mean_over_corrupted_splits, rates_by_source

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


def print_metrics(what: str, rows: Mapping[str, Metrics]) -> None:
    """Print accuracies with intervals: a row for each name, then one for each attribute."""
    table = make_table(what, *_COLUMNS, title="accuracy in % [95% interval]")
    for name, metrics in rows.items():
        for label, each in _with_attributes(name, metrics).items():
            worst = each.worst_group and each.worst_group.accuracy
            accuracies = (each.overall, each.aligned, each.conflicting, each.unbiased, worst)
            table.add_row(escape(label), *map(_cell, accuracies))
    print_table(table)
    for name, metrics in rows.items():
        if metrics.warning:
            say(f"{name}: {metrics.warning}")
    corrupted = mean_over_corrupted_splits({name: row.overall for name, row in rows.items()})
    if corrupted.n:
        limits = percent_range(corrupted.low, corrupted.high)
        say(f"mean corruption accuracy: {percent(corrupted.value)} ({limits})")


def print_details(rows: Mapping[str, Metrics]) -> None:
    """Print class average, calibration and gaps of each split, and rates of two classes."""
    table = make_table("split", *_DETAILS, title="\nin % [95% interval]")
    for name, metrics in rows.items():
        for label, each in _with_attributes(name, metrics).items():
            gaps = (each.demographic_parity, each.equalized_odds)
            cells = (each.class_averaged, each.calibration, *gaps)
            table.add_row(escape(label), *map(_cell, cells))
    print_table(table)
    if all(len(metrics.classes) == 2 for metrics in rows.values()):
        _print_rates(rows)


def _print_rates(rows: Mapping[str, Metrics]) -> None:
    """Print the rates of each bias value; the second of the two classes is the positive one."""
    names = ("true positive", "true negative", "balanced accuracy")
    table = make_table("split", "bias", *names, title="\nrates in % [95% interval]")
    for name, metrics in rows.items():
        for rates in rates_by_source(metrics.cells):
            table.add_row(escape(name), escape(rates.source), *map(_cell, rates[1:]))
    if table.row_count:
        print_table(table)


def _with_attributes(name: str, metrics: Metrics) -> dict[str, Metrics]:
    """The metrics by the bias, then those by every other attribute."""
    others = {f"{name}, by {attribute}": each for attribute, each in metrics.attributes.items()}
    return {name: metrics, **others}


def _cell(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.n:
        return DASH
    return escape(percent_with_range(estimate.value, estimate.low, estimate.high))
