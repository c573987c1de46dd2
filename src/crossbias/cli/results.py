"""``crossbias compare``: runs side by side, on the terminal or in a file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from crossbias.cli import printing
from crossbias.errors import CrossbiasError
from crossbias.runs.files import write_atomically


class TableFormat(StrEnum):
    """How a comparison is written."""

    text = "text"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


_SUFFIXES = {".csv": TableFormat.csv, ".md": TableFormat.markdown, ".tex": TableFormat.latex}


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
        TableFormat | None, typer.Option(help="Left out, what the file's name says, or text.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write: .csv, .md or .tex.")
    ] = None,
) -> None:
    """Compare runs: a row a method, over its seeds, and the gain over plain training."""
    from crossbias.runs import FORMATS
    from crossbias.runs import compare as compare_runs

    # The shell's runs/* names files too, such as a report beside the runs.
    folders = [path for path in runs if not path.is_file()]
    comparison = compare_runs(folders, metrics=metric, attribute=attribute, split=split)
    chosen = format or _table_format(output)
    if chosen is TableFormat.text and output is not None:
        raise CrossbiasError(
            f"{output} would be text; name a file that ends in {', '.join(_SUFFIXES)}, "
            f"or choose --format csv, markdown or latex"
        )
    if chosen is TableFormat.text:
        printing.print_comparison(printing.make_console(), comparison)
        return
    text = FORMATS[chosen](comparison)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_atomically(output, lambda file: file.write(text.encode(errors="replace")))
    typer.echo(f"wrote {output}")


def _table_format(output: Path | None) -> TableFormat:
    return (
        TableFormat.text
        if output is None
        else _SUFFIXES.get(output.suffix.lower(), TableFormat.text)
    )


class PageFormat(StrEnum):
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
        PageFormat | None,
        typer.Option(
            help="html, a page; md, its printing; json, its numbers. From -o if left out."
        ),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="Folder of an audit of the same data, to show too.")
    ] = None,
) -> None:
    """Write one self-contained HTML page (or Markdown, or JSON) that compares runs."""
    from crossbias.report import report as write_report

    chosen = format or _page_format(output)
    output = output or Path(f"report.{chosen}")
    write_report(runs, output, format=chosen.value, audit=audit)
    printing.make_console().print(f"wrote {output}", markup=False, highlight=False, soft_wrap=True)


def _page_format(output: Path | None) -> PageFormat:
    """The format a file's ending names; a page where it names none."""
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    return PageFormat(ending) if ending in list(PageFormat) else PageFormat.html
