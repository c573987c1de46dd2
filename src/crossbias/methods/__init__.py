"""De-biasing methods, one class for each paper.

A method is found by its ``name``: every module of this package is searched for subclasses of
``Method`` that have one. Adding a method takes its class, its test and its page.
"""

import importlib
import inspect
import pkgutil
from typing import Any

from crossbias.train.method import Method, Supervision

__all__ = ["METHODS", "Method", "Supervision"]


def _found() -> dict[str, type[Method]]:
    """The named methods of all modules, plain training first, then by name."""
    modules = [
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    ]
    kinds = {
        kind.name: kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Method) and kind.name
    }
    return {name: kinds[name] for name in sorted(kinds, key=lambda name: (name != "erm", name))}


METHODS: dict[str, type[Method]] = _found()
"""Methods by name; your own are named by dotted path, ``my_package.module:MyMethod``."""

__all__ += [kind.__name__ for kind in METHODS.values()]


def __getattr__(name: str) -> Any:
    """The class of a method by its name, as in ``from crossbias.methods import PGD``."""
    for kind in METHODS.values():
        if kind.__name__ == name:
            return kind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
