"""``crossbias audit``: would a shortcut alone solve the task, and does a model follow one?"""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from torch import nn

from crossbias.audit import audit as examine
from crossbias.audit.findings import Audit, check_folder
from crossbias.audit.suspects import Candidate
from crossbias.cli import options
from crossbias.cli.printing import make_table, print_table, say
from crossbias.cli.verifying_models import (
    NormalizeText,
    Outputs,
    named_model,
    written_normalization,
)
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment, load_trained
from crossbias.formatting import DASH, first_few, percent
from crossbias.models.data_for_models import sizes_for
from crossbias.networks.outside import OutsideModel
from crossbias.progress import shown_progress

_SUSPECTS = 5  # largest number printed for each class; audit.html has more


def audit(
    data: options.Data = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder of a finished run: audit its model together with its data."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="ONNX file, or code that gives a model, my_package:load_model: audit it together "
            "with --data.",
        ),
    ] = None,
    normalize: NormalizeText = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Classes of --model, in the order of its outputs.",
            show_default="those that it names, or those of the data",
        ),
    ] = None,
    outputs: Outputs = None,
    labels: options.Labels = None,
    target: options.Target = None,
    bias: options.Bias = None,
    cluster: options.Cluster = None,
    split: Annotated[str, typer.Option(help="Split to audit.")] = "train",
    set_: options.DataSettings = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file whose table [data] names the data set.")
    ] = None,
    root: options.Root = None,
    permutations: Annotated[
        int, typer.Option(min=99, help="Number of label shuffles behind each p-value.")
    ] = 999,
    seed: Annotated[int, typer.Option(help="Seed of everything random in the audit.")] = 0,
    device: options.Device = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for audit.html, audit.json and pictures.", show_default="audits/NAME"
        ),
    ] = None,
    trust: options.Trust = False,
    quiet: options.Quiet = False,
) -> None:
    """Test whether a shortcut alone would solve the task.

    With --run or --model, also test whether a trained model follows one, and find slices of the
    data on which it fails. Prints the findings and a verdict, and writes audit.html, audit.json,
    pictures, and tables of suspects, slices and groups to --out.
    """
    if run is not None and (data is not None or config is not None):
        raise CrossbiasError("--run already names the data; leave out --data and --config")
    if run is not None and model is not None:
        raise CrossbiasError("--run and --model both name a model; leave one of them out")
    start = Experiment.from_toml(config, trust=trust) if config else Experiment()
    experiment: Experiment
    network: nn.Module | None
    experiment, network = (start, None) if run is None else load_trained(run, trust=trust)
    if model is not None:
        order = None if classes is None else [each.strip() for each in classes.split(",")]
        network = named_model(model, order, outputs)
    chosen = options.given(
        name=data, labels=labels, target=target, bias=bias, cluster=cluster, root=root
    )
    chosen |= options.data_settings(set_)
    if isinstance(network, OutsideModel):
        chosen = sizes_for(network, chosen.get("name") or experiment.data.get("name")) | chosen
    experiment = experiment.updated(data=chosen)
    source = experiment.source
    folder = out or Path("audits") / (run.name if run else options.folder_name(source.name))
    check_folder(folder)
    judged = "test" if "test" in source.test_splits else (*source.test_splits, split)[0]
    progress = shown_progress(quiet=quiet)
    found = examine(
        experiment.split(split, progress),
        files=experiment.files(split),
        network=network,
        network_name=str(run or model),
        normalize=written_normalization(normalize),
        judged=None if network is None else experiment.split(judged),
        judged_files=None if network is None else experiment.files(judged),
        other_columns=source.other_columns,
        permutations=permutations,
        seed=seed,
        device=device or "auto",
        progress=progress,
    )
    found.write(folder)
    _print_audit(found)
    say(f"audit: {folder}/audit.html")


def _print_audit(found: Audit) -> None:
    """Print the tables of an audit and its verdict in words."""
    if found.attributes:
        print_table(_attributes(found))
    if found.cues:
        print_table(_cues(found))
    if found.model is not None:
        print_table(_model(found))
    say(f"\n{found.verdict.sentence}\n")
    for finding in found.verdict.findings:
        say(f"- {finding.strength}: {finding.sentence}")
    _print_suspects(found)
    say("\nNot tested:")
    for sentence in found.verdict.not_tested:
        say(f"- {sentence}")


def _print_suspects(found: Audit) -> None:
    """Print the clearest suspects of each class by the names of their files."""
    by_class: dict[str, list[Candidate]] = {}
    for candidate in found.suspects.candidates if found.suspects else ():
        by_class.setdefault(candidate.target, []).append(candidate)
    if by_class:
        say("\nSuspects, samples that a briefly trained network takes for another class:")
    for target, candidates in by_class.items():
        names = [each.file or f"sample {each.index}" for each in candidates]
        say(f"- {target}: {', '.join(first_few(names, most=_SUSPECTS))}")


def _attributes(found: Audit) -> Table:
    table = make_table(
        "attribute alone", "Cramer's V [95%]", "accuracy", "majority", "p", "smallest group"
    )
    for row in found.attributes:
        v, accuracy = row.cramers_v, row.accuracy
        smallest = "{} / {}: {}".format(*row.smallest[0]) if row.smallest else DASH
        table.add_row(
            escape(row.name),
            escape(f"{v.value:.2f} [{v.low:.2f}, {v.high:.2f}]") if v else DASH,
            percent(accuracy and accuracy.value),
            percent(row.majority),
            _p(row.p_corrected),
            escape(smallest),
        )
    return table


def _cues(found: Audit) -> Table:
    table = make_table("cue alone", "balanced accuracy", "chance", "accuracy", "majority", "p")
    for row in found.cues:
        shares = (row.balanced_accuracy, row.chance, row.accuracy, row.majority)
        table.add_row(row.name, *map(percent, shares), _p(row.p_corrected))
    return table


def _model(found: Audit) -> Table:
    table = make_table("model", "value", "compared with")
    assert found.model is not None
    for feature in found.model.features:
        name = escape(f"features reveal {feature.attribute}")
        table.add_row(name, percent(feature.balanced_accuracy), percent(feature.control))
    for flip in found.model.flips:
        table.add_row(f"answers flip, {flip.change}", percent(flip.rate.value), "0%")
    table.add_row("confident errors", percent(found.model.overall_errors.value), "0%")
    return table


def _p(value: float | None) -> str:
    return DASH if value is None else f"{value:.3f}"
