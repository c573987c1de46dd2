"""The commands: options become calls of the library, and results become tables."""

import shlex
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from crossbias.cli import datasets, listing, options
from crossbias.cli.auditing import audit
from crossbias.cli.feature_command import features
from crossbias.cli.handing_over import card, export
from crossbias.cli.printing import print_details, print_metrics, say
from crossbias.cli.results import compare, report
from crossbias.cli.sweeping import sweep
from crossbias.cli.verifying import verify
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.progress import shown_progress
from crossbias.runs.files import write_json
from crossbias.train.environment import package_version
from crossbias.trained_run import load_run

ORDER = (
    *("demo", "data", "audit", "train", "sweep", "evaluate", "compare", "report", "verify"),
    *("features", "card", "export", "list"),
)


class _InOrder(TyperGroup):
    """Commands in the order in which a person needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(ORDER)


app = typer.Typer(
    cls=_InOrder,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(datasets.app, name="data")
app.command()(audit)
app.command()(compare)
app.command()(report)
app.command()(verify)
app.command()(card)
app.command()(export)
app.command()(sweep)
app.command()(features)


Listed = StrEnum("Listed", ["methods", "data", "networks"])  # what can be listed


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crossbias {package_version()}")
        raise typer.Exit


@app.callback()
def everything(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, for a bug report.")
    ] = False,
) -> None:
    """Find shortcuts in data, train classifiers without them, and verify the result.

    Start with `crossbias demo`. `crossbias COMMAND --help` explains a command.
    """


@app.command()
def train(
    data: options.Data = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="A name from `crossbias list methods`, or package.module:Class.",
            show_default="erm, plain training",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="A name from `crossbias list networks`, a timm model, or package.module:Class.",
            show_default="the data set's own; chosen for your own images",
        ),
    ] = None,
    labels: options.Labels = None,
    target: options.Target = None,
    bias: options.Bias = None,
    cluster: options.Cluster = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[TABLE.]NAME=VALUE",
            help="Any setting of a config file: train.lr=.01, data.rho=.99, "
            "network.pretrained=true. Without a table it is the method's: alpha=1. "
            "May be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with the tables [method], [data], [network] and [train]. "
            "Options override it."
        ),
    ] = None,
    root: options.Root = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in each update.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate at the start.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the training. The data has its own: --set data.seed=1."),
    ] = None,
    device: options.Device = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder.", show_default="runs/DATA-METHOD-SEED"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the unfinished run in --out.")
    ] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also log the run live to tensorboard, wandb or mlflow. May be repeated.",
        ),
    ] = None,
    trust: options.Trust = False,
    quiet: options.Quiet = False,
) -> None:
    """Train one method on one data set and test the result.

    Prints the accuracies on each test split. The run folder --out keeps the model, its
    configuration, the log and the predictions; `crossbias compare` and `crossbias report` read it.

    For your own images (folder:PATH, hf:PATH, webdataset:PATH), image size, network, epochs,
    learning rate and augmentation are chosen by what is there. The first lines say what was chosen
    and how to change it.
    """
    if resume and out is None:
        raise CrossbiasError("--resume needs the folder of the run: --out runs/NAME")
    start = Experiment.from_run(out, trust=trust) if resume and out else Experiment()
    start = Experiment.from_toml(config, trust=trust) if config else start
    named = {
        "method": options.given(name=method),
        "data": options.given(
            name=data, labels=labels, target=target, bias=bias, cluster=cluster, root=root
        ),
        "network": options.given(name=network),
        "train": options.given(
            epochs=epochs, batch_size=batch_size, lr=lr, seed=seed, device=device
        ),
    }
    further = options.settings(set_)
    experiment = start.updated(**{table: named[table] | further[table] for table in named})
    if log:
        experiment = replace(experiment, log=tuple(log))
    folder = out or _default_folder(experiment)
    result = experiment.run(folder, resume=resume, progress=shown_progress(quiet=quiet))
    if result.folder is None:  # of several processes, the one that has the folder prints
        return
    print_metrics("split", result.metrics, selection=result.config["selection"])
    say(f"run: {folder}")
    say(f"next: crossbias report {shlex.quote(str(folder))} -o report.html")


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    split: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<str>",
            help="Split to evaluate on. May be repeated.",
            show_default="all test splits",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Other data with classes of the same names: a name from `crossbias list data`, "
            "or folder:PATH.",
            show_default="the data of the run",
        ),
    ] = None,
    labels: options.Labels = None,
    target: options.Target = None,
    bias: options.Bias = None,
    cluster: options.Cluster = None,
    set_: options.DataSettings = None,
    root: options.Root = None,
    positive: options.PositiveClass = None,
    prevalence: options.Prevalence = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Probability from which a sample is called positive, such as .3, or the rule "
            "'sensitivity>=.9', which chooses it on the validation split of the run.",
            show_default="the most probable class",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="JSON file for all numbers.", show_default="printed only"
        ),
    ] = None,
    trust: options.Trust = False,
) -> None:
    """Evaluate the model of a finished run again, on its own data or on other data.

    Other data is read with the options of the run's data, such as the image size, unless you set
    them. Classes and bias values are matched by name. The training data is not needed. Other data
    without splits is judged whole. Prints accuracies, calibration and gaps between groups. With
    --positive it also prints sensitivity, specificity, PPV, NPV, AUC, Brier score and calibration
    slope, over all samples and for each bias value.
    """
    from crossbias.judging import judge

    if output is not None and output.suffix.lower() != ".json":
        raise CrossbiasError(f"--output writes JSON, got {output}; name a file that ends in .json")
    chosen = options.given(
        name=data, labels=labels, target=target, bias=bias, cluster=cluster, root=root
    )
    trained = load_run(run, trust=trust)
    found = judge(
        trained,
        chosen | options.data_settings(set_),
        split,
        positive=trained.positive(positive, prevalence=prevalence, threshold=threshold),
        progress=shown_progress(),
        trust=trust,
    )
    own = not {"name", "labels"} & set(chosen)  # the splits by which the model may be chosen
    print_metrics("split", found, selection=trained.config["selection"] if own else "last")
    print_details(found)
    if output is not None:
        write_json(output, {name: metrics.to_json() for name, metrics in found.items()})
        say(f"wrote {output}")


@app.command(name="list")
def list_(
    what: Annotated[Listed, typer.Argument(help="What to list.")],
) -> None:
    """List methods, data sets or networks with their parameters."""
    printers = {
        Listed.methods: listing.print_methods,
        Listed.data: listing.print_data,
        Listed.networks: listing.print_networks,
    }
    printers[what]()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the drawings and the trainings.")] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Train and compare four methods on drawn digits.

    The background color gives 94% of the answers away. Takes about a minute and a half on two CPU
    cores and needs no download. Prints a table and writes report.html to --out.
    """
    from crossbias.demo import run_demo

    metrics = run_demo(out, seed=seed, progress=shown_progress(quiet=quiet))
    print_metrics("method", metrics)
    say(f"report: {out / 'report.html'}")


def _default_folder(experiment: Experiment) -> Path:
    parts = (experiment.data, experiment.method or {"name": "erm"})
    names = [options.folder_name(str(part.get("name", "unnamed"))) for part in parts]
    return Path("runs") / "-".join([*names, str(experiment.train.get("seed", 0))])
