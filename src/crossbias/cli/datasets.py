"""``crossbias data``: look at a data set, check it, plant a shortcut or change textures."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from crossbias.audit.association import count_table, cramers_v
from crossbias.cli import options
from crossbias.cli.listing import print_data
from crossbias.cli.printing import make_table, print_table, say
from crossbias.data.dataset import BiasedDataset
from crossbias.data.memory_maps import cache_folder
from crossbias.data.own.table_source import TableSource
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.parameters import convert
from crossbias.progress import shown_progress
from crossbias.runs.files import write_atomically

_LARGEST = 12  # rows and columns of the printed table

app = typer.Typer(
    help="List, show and check data sets, plant a shortcut in one, or change its textures.",
    no_args_is_help=True,
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A name from `crossbias data list`, or folder:PATH for your own images.",
    ),
]


@app.command(name="list")
def list_() -> None:
    """List the data sets with their splits and options."""
    print_data()


@app.command()
def show(
    name: Name,
    split: Annotated[str, typer.Option(help="Split to show.")] = "train",
    labels: options.Labels = None,
    target: options.Target = None,
    bias: options.Bias = None,
    cluster: options.Cluster = None,
    set_: options.DataSettings = None,
    root: options.Root = None,
    sheet: Annotated[
        Path | None,
        typer.Option(help="PNG file for the contact sheet.", show_default="NAME-SPLIT.png"),
    ] = None,
) -> None:
    """Show what a split of a data set holds.

    Prints its size, how strongly each attribute is associated with the target, and the samples of
    each (target, bias) group. Writes a contact sheet of images to --sheet.
    """
    from crossbias.data.inspect.sheet import contact_sheet

    experiment = _experiment(
        name, set_, labels=labels, target=target, bias=bias, cluster=cluster, root=root
    )
    data = experiment.split(split, shown_progress())
    _describe(data)
    if data.inputs.ndim == 2:
        return
    path = sheet or Path(f"{options.folder_name(data.name)}-{split}.png")
    write_atomically(path, lambda file: contact_sheet(data).save(file, format="PNG"))
    say(f"contact sheet: {path}")


@app.command()
def check(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A name from `crossbias data list`, or folder:PATH for your own images.",
        ),
    ] = None,
    labels: options.Labels = None,
    target: options.Target = None,
    bias: options.Bias = None,
    cluster: options.Cluster = None,
    set_: options.DataSettings = None,
    root: options.Root = None,
    cache: Annotated[
        bool,
        typer.Option("--cache", help="Check the cache of decoded images too, or it alone."),
    ] = False,
) -> None:
    """Check every sample of a data set, or the cache of decoded images.

    Reads every file, looks for copies in several splits, doubtful labels, labels that are missing
    by class, and dark images, and compares counts with published ones. Prints errors and warnings.
    The exit code is 1 if there are errors.

    --cache compares all decoded images with the digests that were taken when they were decoded.
    """
    if name is None and not cache:
        raise CrossbiasError("name the data set to check, or check the cache with --cache")
    errors = _check_cache() if cache else 0
    if name is not None:
        columns = {"labels": labels, "target": target, "bias": bias, "cluster": cluster}
        errors += _check_data(name, set_, **columns, root=root)
    if errors:
        raise typer.Exit(1)


def _check_cache() -> int:
    """Print what is wrong in the cache and return the number of errors."""
    from crossbias.data.images.cache_check import check_cache

    shards = list(check_cache())
    problems = [each for each in shards if each.problem]
    for each in problems:
        say(f"error: {each.folder}: {each.problem}; delete it, and its images are decoded again")
    size = f"{len(shards):,} shards, {sum(each.size for each in shards) / 1e9:.2f} GB"
    say(f"cache {cache_folder()}: {size}, errors: {len(problems)}")
    return len(problems)


def _check_data(name: str, set_: list[str] | None, **given: Any) -> int:
    """Print what is wrong with a data set and return the number of errors."""
    from crossbias.data.inspect.checking import check_source

    experiment = _experiment(name, set_, **given)
    found = check_source(
        experiment.source,
        root=experiment.data.get("root"),
        seed=convert(experiment.data.get("seed", 0), int, "seed of the data"),
        progress=shown_progress(),
    )
    for split, size in found.sizes.items():
        say(f"{split}: {size:,} samples")
    for text in found.warnings:
        say(f"warning: {text}")
    for text in found.errors:
        say(f"error: {text}")
    say(
        f"errors: {len(found.errors)}, warnings: {len(found.warnings)}"
        + (f", published counts compared: {found.compared}" if found.compared else "")
    )
    return len(found.errors)


@app.command()
def plant(
    name: Name,
    out: Annotated[Path, typer.Option(help="Folder to create. It must not exist yet.")],
    cue: Annotated[
        str,
        typer.Option(help="What to plant: color, watermark, brightness, texture or patch."),
    ],
    rho: Annotated[
        float, typer.Option(help="Fraction of each class that gets the cue of that class.")
    ] = 0.95,
    seed: Annotated[
        int, typer.Option(help="Seed that decides which images get the cue of another class.")
    ] = 0,
    labels: options.Labels = None,
    target: options.Target = None,
    set_: options.DataSettings = None,
    root: options.Root = None,
) -> None:
    """Copy a data set with a shortcut planted in its images.

    In the training and validation splits the cue matches the class in a fraction rho of the images.
    In test splits every class has every cue equally often, so that the cue does not help there.
    Writes images and labels.csv to --out and prints the command that trains on them.
    """
    from crossbias.data.planting.planting import write_planted

    experiment = _experiment(name, set_, labels=labels, target=target, root=root)
    progress = shown_progress()
    images, (channels, side, _) = write_planted(
        experiment.source,
        lambda split: experiment.split(split, progress),
        out,
        cue=cue,
        rho=rho,
        seed=seed,
    )
    say(f"wrote {images:,} images and labels.csv to {out}")
    say(
        f"next: crossbias train --data {shlex.quote(f'folder:{out}')} "
        f"--labels {shlex.quote(str(out / 'labels.csv'))} --target target --bias {cue} "
        f"--set data.size={side}"
        f"{' --set data.channels=1' if channels == 1 else ''} --method erm",
    )


@app.command()
def stylize(
    name: Name,
    out: Annotated[Path, typer.Option(help="Folder of the copy. An interrupted one is continued.")],
    styles: Annotated[
        Path, typer.Option(help="Folder of pictures, such as paintings, whose styles are used.")
    ],
    encoder: Annotated[Path, typer.Option(help="Weights of AdaIN's encoder, vgg_normalised.pth.")],
    decoder: Annotated[Path, typer.Option(help="Weights of AdaIN's decoder, decoder.pth.")],
    strength: Annotated[
        float, typer.Option(help="1 for the style alone, 0 for the image's own.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed that decides which image gets which style.")] = 0,
    device: options.Device = None,
    labels: options.Labels = None,
    target: options.Target = None,
    set_: options.DataSettings = None,
    root: options.Root = None,
) -> None:
    """Copy the training images in other styles, to train on both.

    Every training image is drawn in the style of a picture by AdaIN, with weights that you have.
    Shapes stay and textures change, so a network trained on images and copies relies less on
    texture. Prints the setting that trains on both.
    """
    from crossbias.stylizing import write_stylized
    from crossbias.train.devices import find_device

    given = {"labels": labels, "target": target, "root": root}
    experiment = _experiment(name, set_, **given)
    data = experiment.split("train", shown_progress())
    written = write_stylized(
        data, out, styles=styles, encoder=encoder, decoder=decoder, strength=strength, seed=seed,
        device=find_device(device or "auto"), progress=shown_progress(),
    )  # fmt: skip
    say(f"wrote {written:,} of {len(data):,} images to {out}")
    settings: dict[str, Any] = options.data_settings(set_) | {"stylized": out}
    if isinstance(experiment.source, TableSource):
        settings |= {"size": data.inputs.shape[-1]}  # else a training chooses one
    words = [word for key, value in options.given(**given).items() for word in (f"--{key}", value)]
    words += [word for key, value in settings.items() for word in ("--set", f"data.{key}={value}")]
    say(f"next: crossbias train --data {shlex.join([name, *words])} --method erm")


@app.command()
def pack(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A Hugging Face data set on a hub, or its folder."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the tars. An interrupted one is continued.")],
    split: Annotated[list[str] | None, typer.Option(help="Split to read; may be repeated.")] = None,
) -> None:
    """Write a streamed Hugging Face data set to WebDataset tars.

    Reads one sample at a time, so that the data set is never whole in memory or in another folder.
    Tars have up to 2 GiB. Prints the command that trains on them.
    """
    from crossbias.data.own.packing import pack as write_tars
    from crossbias.data.own.packing import streamed

    for each in split or ["train"]:
        written = write_tars(streamed(name, each), out, split=each, progress=shown_progress())
        say(f"{each}: {written:,} samples")
    data = shlex.quote(f"webdataset:{out}")
    say(f"next: crossbias train --data {data} --target COLUMN --method erm")


def _experiment(name: str, set_: list[str] | None, **given: Any) -> Experiment:
    return Experiment(data=options.given(name=name, **given) | options.data_settings(set_))


def _describe(data: BiasedDataset) -> None:
    """Print size, hash, attributes with their association, and the samples of each group."""
    shape = " x ".join(str(size) for size in data.inputs.shape[1:])
    say(f"{data.name} {data.split}: {len(data):,} samples of {shape}")
    say(f"hash: {data.hash}")
    for attribute in data.attributes:
        say(_attribute_line(data, attribute))
    if data.bias and data.has_bias_labels:
        _print_counts(data)


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


def _print_counts(data: BiasedDataset) -> None:
    """Print the number of samples by target and bias; aligned groups carry a star."""
    assert data.bias is not None
    names = data.values[data.bias][:_LARGEST]
    table = make_table("target", *names, title=f"samples by target and {data.bias} (* aligned)")
    counts, aligned = data.counts().tolist(), data.alignment().tolist()
    for target, name in enumerate(data.classes[:_LARGEST]):
        cells = [
            f"{counts[target][value]:,}{'*' if aligned[target][value] else ' '}"
            for value in range(len(names))
        ]
        table.add_row(escape(name), *cells)
    print_table(table)
    if max(data.num_classes, data.num_biases) > _LARGEST:
        say(
            f"(only the first {_LARGEST} of {data.num_classes} classes and "
            f"{data.num_biases} values are shown)",
        )
