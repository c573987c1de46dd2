"""Options that several commands share, and the settings of ``--set``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from crossbias.errors import CrossbiasError
from crossbias.parameters import closest

TABLES: Final = ("method", "data", "network", "train")  # the tables of a TOML file

Data = Annotated[
    str | None,
    typer.Option(help="A name from `crossbias list data`, or folder:PATH for your own images."),
]
Labels = Annotated[
    str | None,
    typer.Option(help="Table of labels (CSV, TSV or Parquet) for the images in folder:PATH."),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column or attribute to predict. age:30,40 bins a column of numbers."),
]
Bias = Annotated[
    str | None,
    typer.Option(
        help="Column or attribute that is the bias. Join several columns with commas. age:30,40 "
        "bins a column of numbers."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Column of samples that belong together, such as the patient. Intervals and tests are "
        "then over patients.",
        show_default="group_by of the data",
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder that holds the data sets.", show_default="$CROSSBIAS_DATA"),
]
PositiveClass = Annotated[
    str | None,
    typer.Option(
        "--positive",
        help="Class to be found, such as a disease: sensitivity, specificity and AUC are about it.",
    ),
]
Prevalence = Annotated[
    float | None,
    typer.Option(
        help="Share of the positive class where the model will be used, for PPV and NPV.",
        show_default="that of the samples",
    ),
]
DataSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Option of the data set, such as rho=.99 or seed=1. May be repeated.",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:1, mps or auto.", show_default="auto")
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import code that the run folder or the config file names, such as a network "
        "my_module:MyNetwork. It can do anything: read it first.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the results only, no progress.")]


def given(**values: Any) -> dict[str, Any]:
    """The options that were given, paths as text; one that was not overrides nothing."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in values.items()
        if value is not None
    }


def settings(
    written: list[str] | None, tables: Sequence[str] = TABLES
) -> dict[str, dict[str, str]]:
    """The settings of each table that a command takes, from texts such as ``train.lr=.01``.

    A name without a table belongs to the first. The last setting of a name counts.

    >>> settings(["alpha=1", "inner.q=.5", "train.lr=.01"], ("method", "train"))
    {'method': {'alpha': '1', 'inner.q': '.5'}, 'train': {'lr': '.01'}}
    """
    found: dict[str, dict[str, str]] = {table: {} for table in tables}
    for text in written or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        table, key = _table_and_key(name, text, tables)
        if not (equals and key):
            raise CrossbiasError(f"a setting is written NAME=VALUE, got {text!r}")
        found[table][key] = value
    return found


def data_settings(written: list[str] | None) -> dict[str, str]:
    """The settings of a command that has no table but the data's."""
    return settings(written, ("data",))["data"]


def _table_and_key(name: str, text: str, tables: Sequence[str]) -> tuple[str, str]:
    prefix, dot, key = name.partition(".")
    if dot and prefix in tables:
        return prefix, key
    if dot and prefix in TABLES:
        raise CrossbiasError(
            f"--set {text}: this command has no table {prefix!r}, only "
            f"{' and '.join(map(repr, tables))}; write --set {tables[0]}.NAME=VALUE"
        )
    if dot and (hint := closest(prefix, tables)):
        raise CrossbiasError(
            f"--set {text}: there is no table {prefix!r}{hint}; the tables are: "
            f"{', '.join(tables)}; if {prefix!r} is a parameter, write --set {tables[0]}.{text}"
        )
    return tables[0], name


def folder_name(name: str) -> str:
    """The name of a data set or method as part of a file's name, without the folders of its path.

    >>> folder_name("glyphs"), folder_name("folder:../images/x-rays")
    ('glyphs', 'folder-x-rays')
    """
    first, colon, rest = name.partition(":")
    return f"{first}-{Path(rest).name}" if colon else first
