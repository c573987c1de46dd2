"""What the command line prints: lists, and results with their intervals."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from crossbias.data import DATASETS
from crossbias.methods import METHODS
from crossbias.networks import NETWORKS
from crossbias.parameters import parameters_of
from crossbias.verify import Estimate, Metrics

_COLUMNS = ("overall", "aligned", "conflicting", "unbiased", "worst group")


def print_methods(console: Console) -> None:
    """Name, paper, supervision and hyper-parameters of every method."""
    table = _table("method", "paper", "needs", "hyper-parameters (defaults)")
    for name, kind in METHODS.items():
        table.add_row(name, kind.paper, kind.supervision, _defaults(kind))
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


def print_metrics(console: Console, rows: Mapping[str, Mapping[str, Metrics]]) -> None:
    """Accuracies of runs on splits: a table a split, a row a run."""
    splits = dict.fromkeys(split for metrics in rows.values() for split in metrics)
    for split in splits:
        table = _table("run", *_COLUMNS, title=f"accuracy on {split}, % (95 % interval)")
        for name, metrics in rows.items():
            if split in metrics:
                table.add_row(name, *_cells(metrics[split]))
        console.print(table)


def _cells(metrics: Metrics) -> list[str]:
    worst = metrics.worst_group
    estimates = [metrics.overall, metrics.aligned, metrics.conflicting, metrics.unbiased]
    return [_percent(estimate) for estimate in [*estimates, worst and worst.accuracy]]


def _percent(estimate: Estimate | None) -> str:
    if estimate is None or not estimate.n:
        return "-"
    return f"{100 * estimate.value:.1f} ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"


def _defaults(function: Any) -> str:
    shown = {
        name: parameter.default
        for name, parameter in parameters_of(function).items()
        if parameter.default is not parameter.empty
    }
    return ", ".join(f"{name}={_short(value)}" for name, value in shown.items()) or "none"


def _short(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _table(*columns: str, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
