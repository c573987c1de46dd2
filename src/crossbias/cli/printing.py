"""What the command line prints: lists, and results with their intervals."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossbias.data import DATASETS
from crossbias.methods import METHODS
from crossbias.networks import NETWORKS
from crossbias.parameters import parameters_of
from crossbias.verify import Estimate, Metrics, mean_over_corrupted_splits, rates_by_source

if TYPE_CHECKING:
    from crossbias.runs import Comparison

_WIDTH = 120
_SPLITS = 12  # names of splits in a list
_DETAILS = ("class average", "calibration error", "parity gap", "equalized-odds gap")
_COLUMNS = ("overall", "aligned", "conflicting", "unbiased", "worst group")


def print_methods(console: Console) -> None:
    """Name, paper, supervision and hyper-parameters of every method."""
    table = make_table("method", "paper", "needs", "hyper-parameters (defaults)")
    for name, kind in METHODS.items():
        table.add_row(name, kind.paper, kind().supervision, _defaults(kind))
    console.print(table)


def print_data(console: Console) -> None:
    """Name, summary, splits and options of every data set."""
    table = make_table("data set", "what it is", "splits", "options (defaults)")
    for name, kind in DATASETS.items():
        table.add_row(name, kind.summary, _few(kind.splits), _defaults(kind))
    console.print(table)


def _few(splits: tuple[str, ...]) -> str:
    """Names of splits; of more than a column holds, the first and last and how many."""
    if len(splits) <= _SPLITS:
        return ", ".join(splits)
    return f"{', '.join(splits[:4])}, ... {splits[-1]} ({len(splits)} splits)"


def print_networks(console: Console) -> None:
    """Name, description and options of the networks of the papers."""
    table = make_table("network", "what it is", "options (defaults)")
    for name, factory in NETWORKS.items():
        summary = (factory.__doc__ or "").strip().splitlines()[0]
        table.add_row(name, summary, _defaults(factory))
    console.print(table)
    console.print("and every classifier of timm by its name, such as resnet18 (pretrained=false)")


def print_metrics(console: Console, what: str, rows: Mapping[str, Metrics]) -> None:
    """Accuracies with their intervals, one row a split or a run and, in turn, each attribute."""
    table = make_table(what, *_COLUMNS, title="accuracy in % [95 % interval]")
    for name, metrics in rows.items():
        table.add_row(escape(name), *map(escape, _cells(metrics)))
        for label, other in _by_attribute(name, metrics).items():
            table.add_row(escape(label), *map(escape, _cells(other)))
    console.print(table)
    for name, metrics in rows.items():
        _note(console, f"{name}: {metrics.warning}" if metrics.warning else None)
    corrupted = mean_over_corrupted_splits({name: row.overall for name, row in rows.items()})
    _note(console, f"mean corruption accuracy: {_percent(corrupted)}" if corrupted.n else None)


def print_details(console: Console, rows: Mapping[str, Metrics]) -> None:
    """What goes beyond accuracies: class average, calibration and gaps, split by split."""
    table = make_table("split", *_DETAILS, title="\nin % [95 % interval]")
    for name, metrics in rows.items():
        for label, each in {name: metrics, **_by_attribute(name, metrics)}.items():
            gaps = (each.demographic_parity, each.equalized_odds)
            cells = (each.class_averaged, each.calibration, *gaps)
            table.add_row(escape(label), *map(_escaped, cells))
    console.print(table)
    if all(len(metrics.classes) == 2 for metrics in rows.values()):
        _print_rates(console, rows)


def _print_rates(console: Console, rows: Mapping[str, Metrics]) -> None:
    """Of two classes, the second being the positive one, the rates of each bias value."""
    names = ("true positive", "true negative", "balanced accuracy")
    table = make_table("split", "bias", *names, title="\nrates in % [95 % interval]")
    for name, metrics in rows.items():
        for rates in rates_by_source(metrics.cells):
            table.add_row(escape(name), escape(rates.source), *map(_escaped, rates[1:]))
    console.print(table)


def print_comparison(console: Console, comparison: "Comparison") -> None:
    """Runs side by side, their gains over the baseline, and how to read both."""
    from crossbias.runs import grids_of, legend

    for grid in grids_of(comparison):
        table = make_table(*grid.header, title=grid.title)
        for row in grid.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        console.print()
    for line in legend(comparison):
        _note(console, line)


def _by_attribute(name: str, metrics: Metrics) -> dict[str, Metrics]:
    return {f"{name}, by {attribute}": each for attribute, each in metrics.attributes.items()}


def _escaped(estimate: Estimate | None) -> str:
    return escape(_percent(estimate))


def _note(console: Console, text: str | None) -> None:
    if text is not None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _cells(metrics: Metrics) -> list[str]:
    worst = metrics.worst_group
    estimates = [metrics.overall, metrics.aligned, metrics.conflicting, metrics.unbiased]
    return [_percent(estimate) for estimate in [*estimates, worst and worst.accuracy]]


def _percent(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.n:
        return "-"
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _defaults(function: Any) -> str:
    shown = {
        name: parameter.default
        for name, parameter in parameters_of(function).items()
        if parameter.default is not parameter.empty
    }
    return ", ".join(f"{name}={_short(value)}" for name, value in shown.items()) or "none"


def _short(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def make_console(*, stderr: bool = False) -> Console:
    """A console; wide enough for the tables where the output is not a terminal."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDTH)


def make_table(*columns: str, title: str | None = None) -> Table:
    """An empty table in the style of all of them."""
    table = Table(
        title=title and escape(title),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for column in columns:
        table.add_column(escape(column), overflow="fold")
    return table
