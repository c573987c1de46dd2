"""What ``crossbias list`` prints: methods, data sets and networks with their parameters."""

from collections.abc import Mapping
from typing import Any, get_args

from crossbias.cli.printing import make_table, print_table, say
from crossbias.data import DATASETS
from crossbias.methods import METHODS
from crossbias.networks import NETWORKS
from crossbias.parameters import parameters_of
from crossbias.train.method import Method, Supervision

_SPLITS = 12  # the longest list of splits that is printed in full


def print_methods() -> None:
    """Print paper and hyper-parameters of every method, grouped by what it needs to know."""
    table = make_table("needs to know", "method", "paper", "hyper-parameters (defaults)")
    methods = {name: kind() for name, kind in METHODS.items()}
    for needed in get_args(Supervision):
        for name, method in methods.items():
            if method.supervision == needed:
                table.add_row(needed, name, method.paper, _listed(method.hyperparameters()))
    print_table(table)
    say("\nchange one with: crossbias train --method NAME --set HYPER_PARAMETER=VALUE")


def print_data() -> None:
    """Print name, summary, splits and options of every data set."""
    table = make_table("data set", "what it is", "splits", "options (defaults)")
    for name, kind in DATASETS.items():
        table.add_row(name, kind.summary, _few(kind.splits), _defaults(kind))
    print_table(table)
    say("\nchange one with: crossbias train --data NAME --set data.OPTION=VALUE")


def print_networks() -> None:
    """Print name, description and options of the papers' networks."""
    table = make_table("network", "what it is", "options (defaults)")
    for name, factory in NETWORKS.items():
        summary = (factory.__doc__ or "").strip().splitlines()[0]
        table.add_row(name, summary, _defaults(factory))
    print_table(table)
    say("\nand every timm classifier by its name, such as resnet18 (pretrained=false)")
    say("change one with: crossbias train --network NAME --set network.OPTION=VALUE")


def _few(splits: tuple[str, ...]) -> str:
    """The names of the splits; a long list is cut in the middle and gets its length."""
    if len(splits) <= _SPLITS:
        return ", ".join(splits)
    return f"{', '.join(splits[:4])}, ... {splits[-1]} ({len(splits)} splits)"


def _defaults(function: Any) -> str:
    parameters = parameters_of(function).items()
    return _listed({name: p.default for name, p in parameters if p.default is not p.empty})


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_as_typed(value)}" for name, value in values.items()) or "none"


def _as_typed(value: Any) -> str:
    """A value as one types it behind ``--set``."""
    if isinstance(value, Method):
        return value.name
    if isinstance(value, tuple):
        return ",".join(map(_as_typed, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
