"""``crossbias data list | show | check | plant``: what a data set holds, before any training."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from crossbias.audit.association import count_table, cramers_v
from crossbias.cli.listing import print_data
from crossbias.cli.options import (
    Bias,
    DataSettings,
    Labels,
    Root,
    Target,
    data_settings,
    folder_name,
    given,
)
from crossbias.cli.printing import make_console, make_table, say
from crossbias.data.dataset import BiasedDataset
from crossbias.experiment import Experiment
from crossbias.progress import shown_progress
from crossbias.runs.files import write_atomically

_LARGEST = 12  # rows and columns of a table that is printed

app = typer.Typer(help="List, show, check and plant data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Data set, as in `crossbias data list`.")]


@app.command(name="list")
def list_() -> None:
    """List the data sets with their splits and options."""
    print_data(make_console())


@app.command()
def show(
    name: Name,
    split: Annotated[str, typer.Option(help="Split.")] = "train",
    labels: Labels = None,
    target: Target = None,
    bias: Bias = None,
    set_: DataSettings = None,
    root: Root = None,
    sheet: Annotated[
        Path | None,
        typer.Option(help="PNG file for the contact sheet; NAME-SPLIT.png if not given."),
    ] = None,
) -> None:
    """Print sizes, counts and strength of the bias; write a contact sheet."""
    from crossbias.data.inspect.sheet import contact_sheet

    experiment = _experiment(name, set_, labels=labels, target=target, bias=bias, root=root)
    data = experiment.split(split, shown_progress())
    console = make_console()
    _describe(console, data)
    if data.inputs.ndim == 2:
        return
    path = sheet or Path(f"{folder_name(data.name)}-{split}.png")
    write_atomically(path, lambda file: contact_sheet(data).save(file, format="PNG"))
    say(console, f"contact sheet: {path}")


@app.command()
def check(
    name: Name,
    labels: Labels = None,
    target: Target = None,
    bias: Bias = None,
    set_: DataSettings = None,
    root: Root = None,
) -> None:
    """Decode and compare everything; exit with 1 if files or published counts are wrong."""
    from crossbias.data.inspect.checking import check_source

    experiment = _experiment(name, set_, labels=labels, target=target, bias=bias, root=root)
    found = check_source(
        experiment.source(),
        root=experiment.data.get("root"),
        seed=int(experiment.data.get("seed", 0)),
        progress=shown_progress(),
    )
    console = make_console()
    for split, size in found.sizes.items():
        say(console, f"{split}: {size:,} samples")
    for text in found.warnings:
        say(console, f"warning: {text}")
    for text in found.errors:
        say(console, f"error: {text}")
    say(
        console,
        f"{found.compared} published counts compared, {len(found.errors)} errors, "
        f"{len(found.warnings)} warnings",
    )
    if found.errors:
        raise typer.Exit(1)


@app.command()
def plant(
    name: Name,
    out: Annotated[Path, typer.Option(help="Folder to make; must not exist.")],
    cue: Annotated[str, typer.Option(help="color, watermark, brightness, texture or patch.")],
    rho: Annotated[float, typer.Option(help="Fraction of a class with its own cue.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Decides which images conflict.")] = 0,
    labels: Labels = None,
    target: Target = None,
    set_: DataSettings = None,
    root: Root = None,
) -> None:
    """Write the images with a planted shortcut, as a folder that `--data folder:OUT` reads.

    The training and validation splits carry the cue with rho; in every test split each value of
    it is equally frequent, so that it is useless there.
    """
    from crossbias.data.planting.planted_folder import write_planted

    experiment = _experiment(name, set_, labels=labels, target=target, root=root)
    progress = shown_progress()
    images, (channels, side, _) = write_planted(
        experiment.source(),
        lambda split: experiment.split(split, progress),
        out,
        cue=cue,
        rho=rho,
        seed=seed,
    )
    console = make_console()
    say(console, f"wrote {images:,} images and labels.csv to {out}")
    say(
        console,
        f"next: crossbias train --data {shlex.quote(f'folder:{out}')} "
        f"--labels {shlex.quote(str(out / 'labels.csv'))} --target target --bias {cue} "
        f"--set data.size={side}"
        f"{' --set data.channels=1' if channels == 1 else ''} --method erm",
    )


def _experiment(name: str, set_: list[str] | None, **options: Any) -> Experiment:
    return Experiment(data=given(name=name, **options) | data_settings(set_))


def _describe(console: Console, data: BiasedDataset) -> None:
    """Print size, hash, attributes with their association, and the target x bias table."""
    shape = " x ".join(str(size) for size in data.inputs.shape[1:])
    say(console, f"{data.name} {data.split}: {len(data):,} samples of {shape}")
    say(console, f"hash: {data.hash}")
    for attribute in data.attributes:
        say(console, _attribute_line(data, attribute))
    if data.bias and data.has_bias_labels:
        _print_counts(console, data)


def _attribute_line(data: BiasedDataset, attribute: str) -> str:
    column, values = data.attributes[attribute], len(data.values[attribute])
    known = column >= 0
    parts = [f"{attribute}: {values} values"]
    if known.any():
        counts = count_table(data.targets[known], column[known], (data.num_classes, values))
        parts.append(f"Cramer's V with the target {float(cramers_v(counts)):.3f}")
    if not known.all():
        parts.append(f"{int((~known).sum()):,} not known")
    return ", ".join(parts) + (" (the bias)" if attribute == data.bias else "")


def _print_counts(console: Console, data: BiasedDataset) -> None:
    """The target x bias table; aligned groups carry a star."""
    assert data.bias is not None
    names = data.values[data.bias][:_LARGEST]
    table = make_table("target", *names, title=f"samples by target and {data.bias}, * aligned")
    counts, aligned = data.counts().tolist(), data.alignment().tolist()
    for target, name in enumerate(data.classes[:_LARGEST]):
        cells = [
            f"{counts[target][value]:,}{'*' if aligned[target][value] else ' '}"
            for value in range(len(names))
        ]
        table.add_row(escape(name), *cells)
    console.print(table)
    if max(data.num_classes, data.num_biases) > _LARGEST:
        say(
            console,
            f"(the first {_LARGEST} of {data.num_classes} classes, {data.num_biases} values)",
        )
