"""Options that several commands share, and settings written NAME=VALUE."""

from pathlib import Path
from typing import Annotated, Any

import typer

from crossbias.errors import CrossbiasError

Labels = Annotated[str | None, typer.Option(help="Table of labels, for `folder:PATH`.")]
Target = Annotated[str | None, typer.Option(help="Column of that table to learn.")]
Bias = Annotated[
    str | None, typer.Option(help="The attribute that is the bias; several with commas.")
]
Root = Annotated[Path | None, typer.Option(help="Folder of the data set's files.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print results only.")]


def given(**values: Any) -> dict[str, Any]:
    """The options that were given, paths as text; one that was not overrides nothing."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in values.items()
        if value is not None
    }


def parsed(settings: list[str] | None) -> dict[str, str]:
    """Settings written NAME=VALUE."""
    for setting in settings or []:
        if "=" not in setting:
            raise CrossbiasError(f"a setting is written NAME=VALUE, got {setting!r}")
    pairs = [setting.partition("=") for setting in settings or []]
    return {name.strip(): value.strip() for name, _, value in pairs}


def folder_name(name: str) -> str:
    """The name of a data set or method as part of a file's name, without the folders of its path.

    >>> folder_name("glyphs"), folder_name("folder:../images/x-rays")
    ('glyphs', 'folder-x-rays')
    """
    first, colon, rest = name.partition(":")
    return f"{first}-{Path(rest).name}" if colon else first
