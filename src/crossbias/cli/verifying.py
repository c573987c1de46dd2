"""``crossbias verify``: judge the answers of any model, or plan a test set with ``--plan``."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from crossbias.answers import Verification, verify_table
from crossbias.cli import options
from crossbias.cli.answers_printing import print_gates, print_verification
from crossbias.cli.printing import say
from crossbias.cli.sample_size import print_plan
from crossbias.cli.verifying_models import Models, NormalizeText, Outputs, verified_models
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.progress import shown_progress
from crossbias.runs.files import write_atomically, write_json

GATE_FAILED = 3  # the exit code where a gate fails

JudgedBy = StrEnum("JudgedBy", ["interval", "value"])  # what a gate is judged by


def verify(
    tables: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="CSV, TSV or Parquet file with one row for each sample. Several files are several "
            "models, whose rows are matched by --id.",
        ),
    ] = None,
    model: Models = None,
    target: options.Target = None,
    prediction: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the answers: classes, or probabilities of --positive. One column for "
            "each class: p_a,p_b,p_c in the order of the classes, or 'p_*'. Repeat it for several "
            "models.",
        ),
    ] = None,
    bias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of an attribute. May be repeated. hospital,sex judges both together. "
            "age:30,40 bins a column of numbers.",
        ),
    ] = None,
    intersections: Annotated[
        int,
        typer.Option(help="Judge up to so many columns of --bias together: 2 tries all pairs."),
    ] = 1,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="All classes, in the order of the columns of probabilities.",
            show_default="those of --target, sorted",
        ),
    ] = None,
    aligned: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=VALUE",
            help="Value of the first --bias that went along with a class in training. May be "
            "repeated.",
        ),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            help="Table of the training samples, which shows what went along with what.",
            show_default="the rows of the split train",
        ),
    ] = None,
    id: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of identifiers.")] = None,
    cluster: options.Cluster = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of how much each sample counts.")
    ] = None,
    split_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of splits.", show_default="all rows are judged"
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Split to judge, or to count with --plan.")] = "test",
    validation: Annotated[
        str, typer.Option(help="Split on which a rule chooses the --threshold.")
    ] = "validation",
    positive: options.PositiveClass = None,
    prevalence: options.Prevalence = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Probability from which a sample is called positive, such as .3, or the rule "
            "'sensitivity>=.9', which chooses it on the rows of --validation.",
            show_default="the most probable class",
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GATE",
            help="Requirement such as 'worst_group >= .8' or 'gap(sex) <= .05'. May be repeated. "
            "The exit code is 3 if one fails.",
        ),
    ] = None,
    judge_by: Annotated[
        JudgedBy,
        typer.Option(help="Judge gates by the cautious end of the interval, or by the value."),
    ] = JudgedBy.interval,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JUnit XML file for the gates.")
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write: .json for all numbers, .html for a page. May be repeated.",
            show_default="printed only",
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what a test set of this size can show.")
    ] = False,
    counts: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="For --plan: samples of each group, one class after another: 500,40,30,480 for "
            "two classes and two bias values. More than two classes are separated by /: "
            "50,5/5,50/20,30.",
        ),
    ] = None,
    data: options.Data = None,
    labels: options.Labels = None,
    set_: options.DataSettings = None,
    root: options.Root = None,
    normalize: NormalizeText = None,
    outputs: Outputs = None,
    gain: Annotated[
        float,
        typer.Option(help="For --plan: difference of two accuracies to be seen; .05 is 5 points."),
    ] = 0.05,
    accuracy: Annotated[float, typer.Option(help="For --plan: assumed accuracy in a group.")] = 0.8,
    differing: Annotated[
        float,
        typer.Option(
            help="For --plan: assumed share of samples that only one of two models gets right."
        ),
    ] = 0.2,
    deviation: Annotated[
        float,
        typer.Option(help="For --plan: assumed standard deviation of an accuracy over seeds."),
    ] = 0.015,
) -> None:
    """Judge the answers of any model by group, with intervals; or plan a test set.

    For a table of answers, prints accuracies, gaps between groups, calibration and, with
    --positive, sensitivity, specificity and AUC, over all samples and for each value of --bias.
    Groups on which the model fails are flagged. Gates (--require) decide the exit code.

    With --model, a model is run over the images of --data first.

    With --plan, prints how wide intervals will be for --counts or the labels of --data, and how
    many samples and seeds it takes to see a gain. No image is read.
    """
    if plan:
        chosen = options.given(
            name=data, labels=labels, target=target, bias=",".join(bias or []) or None, root=root
        )
        own = None if data is None else Experiment(data=chosen | options.data_settings(set_))
        print_plan(
            counts=counts, experiment=own, split=split, gain=gain, accuracy=accuracy,
            differing=differing, deviation=deviation,
        )  # fmt: skip
        return
    judging: dict[str, Any] = {
        "bias": bias or [], "intersections": intersections, "aligned": _aligned(aligned),
        "classes": None if classes is None else [each.strip() for each in classes.split(",")],
        "weight": weight, "split": split, "validation": validation, "positive": positive,
        "prevalence": prevalence, "threshold": threshold,
    }  # fmt: skip
    columns: dict[str, Any] = {
        "prediction": prediction, "training": training, "id": id, "split_column": split_column,
    }  # fmt: skip
    if model:
        _refuse_beside_models({**columns, "TABLE": tables, "weight": weight})
        named = options.given(name=data, labels=labels, target=target, cluster=cluster, root=root)
        verified = partial(
            verified_models, model, named | options.data_settings(set_), judging,
            normalize=normalize, outputs=outputs, progress=shown_progress(),
        )  # fmt: skip
    elif not tables or target is None or not prediction:
        raise CrossbiasError(
            "name a table of answers and its columns: crossbias verify predictions.csv --target y "
            "--prediction p --bias hospital; or a model and images: --model model.onnx --data "
            "folder:PATH; crossbias verify --plan plans a test set"
        )
    else:
        verified = partial(
            verify_table, tables, target=target, cluster=cluster, **columns, **judging
        )
    _print_verified(
        verified, require=require or [], judge_by=judge_by, junit=junit, outputs=output or []
    )


def _refuse_beside_models(given: dict[str, Any]) -> None:
    """Refuse options of tables where models are run."""
    for name, value in given.items():
        if value:
            option = name if name.isupper() else f"--{name.replace('_', '-')}"
            raise CrossbiasError(
                f"{option} is about tables of answers; with --model, name the images by --data and "
                f"their columns by --labels, --target and --bias"
            )


def _print_verified(
    verified: Callable[[], Verification],
    *,
    require: list[str],
    judge_by: JudgedBy,
    junit: Path | None,
    outputs: list[Path],
) -> None:
    from crossbias.answers.answers_page import render_page
    from crossbias.answers.gates import judge_gates, read_gate
    from crossbias.answers.junit import junit_xml

    # What cannot be read or written is refused before the work.
    gates = [read_gate(text) for text in require]
    if junit is not None and not gates:
        raise CrossbiasError("--junit writes the gates, and there is none; add --require GATE")
    for path in outputs:
        if path.suffix.lower() not in (".json", ".html"):
            raise CrossbiasError(
                f"--output writes a page (.html) or all numbers (.json), got {path}"
            )
    found = verified()
    by: Any = judge_by.value  # a member's value is just a str
    results = judge_gates(found, gates, by=by)
    print_verification(found)
    print_gates(results, judge_by.value)
    for path in outputs:
        if path.suffix.lower() == ".json":
            judged = [result.to_json() for result in results]
            write_json(path, {**found.to_json(), "gates": judged})
        else:
            page = render_page(found, results).encode(errors="replace")
            write_atomically(path, lambda file, page=page: file.write(page))  # type: ignore[misc]
        say(f"wrote {path}")
    if junit is not None:
        text = junit_xml(results, name=found.source)
        write_atomically(junit, lambda file: file.write(text))
        say(f"wrote {junit}")
    if not all(result.passed for result in results):
        raise typer.Exit(GATE_FAILED)


def _aligned(written: list[str] | None) -> dict[str, list[str]] | None:
    """The values of each class, from texts such as ``ill=north``."""
    if written is None:
        return None
    found: dict[str, list[str]] = {}
    for text in written:
        target, equals, value = (part.strip() for part in text.partition("="))
        if not (target and equals and value):
            raise CrossbiasError(f"--aligned is written CLASS=VALUE, got {text!r}")
        found.setdefault(target, []).append(value)
    return found
