"""Trust: code that a run folder or a recipe names is not imported unless the user agrees.

A network, a method or a data source may be named by a path such as ``my_package.module:Class``.
Importing it runs code. Whoever types such a name wants that. A file that came from somebody else
may name anything.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from crossbias.errors import Untrusted

_OURS = ("crossbias.demo:color_network",)
_LONGEST = 200  # characters of the options in a message


def check_trusted(
    tables: Mapping[str, Mapping[str, Any]], origin: Path, typed: Collection[str] = ()
) -> None:
    """Refuse names of code in the tables of a file, before anything is imported.

    Args:
        tables: Some of ``method``, ``data`` and ``network``, each with name and options.
        origin: The file that holds the tables.
        typed: Names that the user gave, which are trusted.

    >>> check_trusted({"network": {"name": "resnet18"}}, Path("recipe.toml"))
    >>> check_trusted({"network": {"name": "os:system"}}, Path("recipe.toml"))
    Traceback (most recent call last):
    crossbias.errors.Untrusted: recipe.toml names code as its network: this would import os and \
call system(); if you trust the file and that code, add --trust (in Python: trust=True)
    """
    for table, options in tables.items():
        for name in names_of_code(table, options):
            if name in typed or name in _OURS or _is_torchvision_model(name):
                continue
            module, _, called = name.partition(":")
            own = options if options.get("name") == name else {}
            written = ", ".join(f"{key}={own[key]!r}" for key in own if key != "name")
            raise Untrusted(
                f"{origin} names code as its {table}: this would import {module} and call "
                f"{called}({written[:_LONGEST]}); if you trust the file and that code, add --trust "
                f"(in Python: trust=True)"
            )


def names_of_code(table: str, options: Mapping[str, Any]) -> list[str]:
    """The names in a table that would be imported.

    Hyper-parameters of a method may name methods and networks too.

    >>> names_of_code("method", {"name": "rebias", "biased": ["convnet-1x1", "own:g"]})
    ['own:g']
    >>> names_of_code("data", {"name": "folder:images", "labels": "a:b.csv"})
    []
    """
    given = options if table == "method" else options.get("name")
    names = [part.strip() for text in _texts(given) for part in text.split(",") if ":" in part]
    paths = ("folder:", "hf:", "webdataset:", "features:") if table == "data" else ()
    return [name for name in names if not name.startswith(paths)]


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _is_torchvision_model(name: str) -> bool:
    """Whether a name is that of one of torchvision's own models."""
    module, _, builder = name.partition(":")
    if module != "torchvision.models":
        return False
    try:
        from torchvision.models import list_models
    except ImportError:
        return False
    return builder in list_models()
