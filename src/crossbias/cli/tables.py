"""What the command line prints: lists, and results with their intervals."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossbias.data import DATASETS
from crossbias.methods import METHODS
from crossbias.networks import NETWORKS
from crossbias.parameters import parameters_of
from crossbias.verify import Estimate, Metrics

_WIDTH = 120
_COLUMNS = ("overall", "aligned", "conflicting", "unbiased", "worst group")


def print_methods(console: Console) -> None:
    """Name, paper, supervision and hyper-parameters of every method."""
    table = _table("method", "paper", "needs", "hyper-parameters (defaults)")
    for name, kind in METHODS.items():
        table.add_row(name, kind.paper, kind().supervision, _defaults(kind))
    console.print(table)


def print_data(console: Console) -> None:
    """Name, summary, splits and options of every data set."""
    table = _table("data set", "what it is", "splits", "options (defaults)")
    for name, kind in DATASETS.items():
        table.add_row(name, kind.summary, ", ".join(kind.splits), _defaults(kind))
    console.print(table)


def print_networks(console: Console) -> None:
    """Name, description and options of the networks of the papers."""
    table = _table("network", "what it is", "options (defaults)")
    for name, factory in NETWORKS.items():
        summary = (factory.__doc__ or "").strip().splitlines()[0]
        table.add_row(name, summary, _defaults(factory))
    console.print(table)
    console.print("and every classifier of timm by its name, such as resnet18 (pretrained=false)")


def print_metrics(console: Console, what: str, rows: Mapping[str, Metrics]) -> None:
    """Accuracies with their intervals, one row a split or a run."""
    table = _table(what, *_COLUMNS, title="accuracy in % [95 % interval]")
    for name, metrics in rows.items():
        table.add_row(escape(name), *map(escape, _cells(metrics)))
    console.print(table)


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


def _table(*columns: str, title: str | None = None) -> Table:
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
