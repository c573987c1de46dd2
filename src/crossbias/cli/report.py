"""The command that writes a report."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from crossbias.cli import tables


class Format(StrEnum):
    """What a report can be."""

    html = "html"
    md = "md"
    json = "json"


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; report.html, .md or .json."),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(help="html, a page; md, its tables; json, its numbers. From -o if left out."),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="Folder of an audit of the same data, to show too.")
    ] = None,
) -> None:
    """Write one self-contained HTML page (or Markdown, or JSON) that compares runs."""
    from crossbias.report import write_report

    chosen = format or _format_of(output)
    output = output or Path(f"report.{chosen}")
    write_report(runs, output, format=chosen.value, audit=audit)
    tables.make_console().print(f"wrote {output}", markup=False, highlight=False, soft_wrap=True)


def _format_of(output: Path | None) -> Format:
    """The format a file's ending names; a page where it names none."""
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    return Format(ending) if ending in list(Format) else Format.html
