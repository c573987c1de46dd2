"""``crossbias compare``: runs side by side, on the terminal or in a file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from crossbias.cli import tables
from crossbias.errors import CrossbiasError
from crossbias.storage import write_atomically


class Format(StrEnum):
    """How a comparison is written."""

    text = "text"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


_SUFFIXES = {".csv": Format.csv, ".md": Format.markdown, ".tex": Format.latex}


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs of the same data.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Number to compare, such as class_averaged; may be repeated."),
    ] = None,
    attribute: Annotated[
        str | None, typer.Option(help="Judge by this attribute; the runs' bias if left out.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Judge on this split, such as test-biased; test if left out.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Left out, what the file's name says, or text.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write: .csv, .md or .tex.")
    ] = None,
) -> None:
    """Compare runs: a row a method, over its seeds, and the gain over plain training."""
    from crossbias.compare import FORMATS, compare_runs

    # The shell's runs/* names files too, such as a report beside the runs.
    folders = [path for path in runs if not path.is_file()]
    comparison = compare_runs(folders, columns=metric, attribute=attribute, split=split)
    chosen = format or _format_of(output)
    if chosen is Format.text and output is not None:
        raise CrossbiasError(
            f"{output} would be text; name a file that ends in {', '.join(_SUFFIXES)}, "
            f"or choose --format csv, markdown or latex"
        )
    if chosen is Format.text:
        tables.print_comparison(tables.make_console(), comparison)
        return
    text = FORMATS[chosen](comparison)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_atomically(output, lambda file: file.write(text.encode(errors="replace")))
    typer.echo(f"wrote {output}")


def _format_of(output: Path | None) -> Format:
    return Format.text if output is None else _SUFFIXES.get(output.suffix.lower(), Format.text)
