"""``crossbias compare`` and ``crossbias report``: finished runs as a table or as a page."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from crossbias.cli import options
from crossbias.cli.printing import make_table, print_table, say
from crossbias.errors import CrossbiasError
from crossbias.formatting import visible
from crossbias.runs import FORMATS, Comparison, grids_of, legend
from crossbias.runs import compare as compared
from crossbias.runs.files import write_atomically
from crossbias.runs.sweeps import runs_by_data

TableFormat = StrEnum("TableFormat", ["text", "csv", "markdown", "latex"])
"""The formats of a comparison."""

PageFormat = StrEnum("PageFormat", ["html", "pdf", "md", "json"])  # the formats of a report

_SUFFIXES = {".csv": TableFormat.csv, ".md": TableFormat.markdown, ".tex": TableFormat.latex}


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Folders of finished runs of the same data, or of a sweep."
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<str>", help="Metric to show, such as class_averaged. May be repeated."
        ),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(
            help="Attribute that defines the groups.", show_default="the bias of the runs"
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split to compare on.", show_default="test")
    ] = None,
    positive: options.PositiveClass = None,
    format: Annotated[
        TableFormat | None,
        typer.Option(help="Format of the table.", show_default="by the ending of --output"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File to write: .csv, .md or .tex.", show_default="printed"
        ),
    ] = None,
) -> None:
    """Compare finished runs in a table.

    Runs that differ only in the training seed share a row. A second table shows the gain of each
    row over plain training, with intervals that are corrected for the number of rows. Prints both
    tables, or writes them to --output.
    """
    # The shell expands runs/* to files too, such as a report beside the runs.
    folders = [path for path in runs if not path.is_file()]
    comparisons = {
        data: compared(each, metrics=metric, attribute=attribute, split=split, positive=positive)
        for data, each in runs_by_data(folders).items()
    }
    ending = "" if output is None else output.suffix.lower()
    chosen = format or _SUFFIXES.get(ending, TableFormat.text)
    if chosen is TableFormat.text and output is not None:
        raise CrossbiasError(
            f"the format of {output} is not known; name a file that ends in "
            f"{', '.join(_SUFFIXES)}, or choose --format csv, markdown or latex"
        )
    if chosen is TableFormat.text:
        for data, comparison in comparisons.items():
            if comparisons.keys() != {data}:
                say(f"{data}\n")
            _print_comparison(comparison)
        return
    _check_one(comparisons)
    text = FORMATS[chosen](*comparisons.values())
    if output is None:
        typer.echo(visible(text, keep="\n"), nl=False)
        return
    write_atomically(output, lambda file: file.write(text.encode(errors="replace")))
    say(f"wrote {output}")


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of finished runs, or of a sweep.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="File to write: .html, .pdf, .md or .json.",
            show_default="report.html",
        ),
    ] = None,
    format: Annotated[
        PageFormat | None,
        typer.Option(
            help="html: a page with pictures; pdf: the page on paper; md: its tables; json: its "
            "numbers.",
            show_default="by the ending of --output",
        ),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="Folder of an audit of the same data, to include.")
    ] = None,
    positive: options.PositiveClass = None,
    title: Annotated[
        str | None, typer.Option(help="Title.", show_default="Bias report: name of the data")
    ] = None,
) -> None:
    """Write a report that compares finished runs.

    The report is one self-contained HTML page, the same page as PDF, or its numbers as Markdown or
    JSON. It is written to --output. A PDF needs Chromium or Chrome.
    """
    from crossbias.report import report as write_report

    _check_one(runs_by_data(runs))
    output = output or Path(f"report.{format or PageFormat.html}")
    chosen: Any = None if format is None else format.value  # a member's value is just a str
    written = write_report(runs, output, format=chosen, audit=audit, positive=positive, title=title)
    say(f"wrote {written.path}")


def _check_one(found: Mapping[str, Any]) -> None:
    """Refuse a sweep of several data sets where one table is asked for."""
    if len(found) > 1:
        raise CrossbiasError(
            f"these runs are about {len(found)} data sets or options of data, which one table "
            f"cannot hold: {', '.join(filter(None, found))}; name the run folders of one of them, "
            f"such as SWEEP/runs/*-rho0.9-*"
        )


def _print_comparison(comparison: Comparison) -> None:
    """Print the runs side by side, their gains over the baseline, and how to read both."""
    for grid in grids_of(comparison):
        table = make_table(*grid.header, title=grid.title)
        for row in grid.rows:
            table.add_row(*map(escape, row))
        print_table(table)
        say("")
    for line in legend(comparison):
        say(line)
