"""``crossbias verify --plan``: what a test set of this size can show, before any training."""

from typing import Annotated

import torch
import typer
from rich.markup import escape
from torch import Tensor

from crossbias.cli import options
from crossbias.cli.printing import make_table, print_table, say
from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.formatting import DASH, count, percent
from crossbias.verify import planning

_HALF = 0.05  # the half-width that the last column of the table asks for
_LARGEST = 1_000_000  # samples in all groups of --counts


def verify(
    table: Annotated[str | None, typer.Argument(hidden=True)] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what a test set of this size can show.")
    ] = False,
    counts: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Samples of each group, one class after another: 500,40,30,480 for two classes "
            "and two bias values. Separate more than two classes by /: 50,5/5,50/20,30.",
        ),
    ] = None,
    data: options.Data = None,
    labels: options.Labels = None,
    target: options.Target = None,
    bias: options.Bias = None,
    set_: options.DataSettings = None,
    root: options.Root = None,
    split: Annotated[str, typer.Option(help="Split of --data to count.")] = "test",
    gain: Annotated[
        float, typer.Option(help="Difference of two accuracies to be seen; .05 is 5 points.")
    ] = 0.05,
    accuracy: Annotated[float, typer.Option(help="Assumed accuracy in a group.")] = 0.8,
    differing: Annotated[
        float,
        typer.Option(help="Assumed share of samples that only one of two models gets right."),
    ] = 0.2,
    deviation: Annotated[
        float, typer.Option(help="Assumed standard deviation of an accuracy over seeds.")
    ] = 0.015,
) -> None:
    """Plan a test set: how wide intervals will be, and which gains can be seen.

    For --counts or the labels of --data, prints the half-width of the 95% interval in each group,
    how many conflicting samples it takes to see a gain, and how many seeds. No image is read.
    """
    if table is not None or not plan:
        raise CrossbiasError(
            "crossbias verify can only plan so far: crossbias verify --plan --counts "
            "500,40,30,480; from Python, crossbias.verify judges the answers of any model"
        )
    if (counts is None) == (data is None):
        raise CrossbiasError(
            "a plan needs the number of samples in each group: give --counts 500,40,30,480 or "
            "--data, one of them"
        )
    if counts is not None:
        judged = _of_counts(counts)
        aligned = judged.alignment()
    else:
        chosen = options.given(name=data, labels=labels, target=target, bias=bias, root=root)
        judged, aligned = _of_data(Experiment(data=chosen | options.data_settings(set_)), split)
    # What cannot be planned is refused before anything is printed.
    needed = planning.samples_for_gain(gain, differing=differing)
    seeds = planning.seeds_for_gain(gain, deviation=deviation)
    wanted = planning.samples_for_accuracy(accuracy, half=_HALF)
    _print_groups(judged, aligned, accuracy, wanted)
    for line in _gain_lines(judged, aligned, needed, gain, differing):
        say(line)
    say(
        f"To see this gain between two methods: at least {seeds} seeds of each, if an accuracy "
        f"varies by {100 * deviation:.3g} points (standard deviation) from seed to seed."
    )


def _of_counts(text: str) -> BiasedDataset:
    """Samples without images, as many in each group as the text says."""
    try:
        rows = [[int(number) for number in row.split(",")] for row in text.split("/")]
    except ValueError:
        rows = [[]]
    if len(rows) == 1 and len(rows[0]) % 2 == 0:  # two classes
        half = len(rows[0]) // 2
        rows = [rows[0][:half], rows[0][half:]]
    numbers = torch.tensor([number for row in rows for number in row])
    alike = len(rows) > 1 and all(len(row) == len(rows[0]) > 0 for row in rows)
    if not alike or bool((numbers < 0).any()) or not 0 < int(numbers.sum()) <= _LARGEST:
        raise CrossbiasError(
            f"--counts has the samples of each group, one class after another, such as "
            f"500,40,30,480 for two classes or 50,5/5,50/20,30 for three, and at most "
            f"{_LARGEST:,} in all, got {text!r}"
        )
    group = torch.arange(len(numbers)).repeat_interleave(numbers)
    return BiasedDataset(
        inputs=torch.zeros(len(group), 1),
        targets=group // len(rows[0]),
        attributes={"bias": group % len(rows[0])},
        bias="bias",
        classes=tuple(str(number + 1) for number in range(len(rows))),
        values={"bias": tuple(str(number + 1) for number in range(len(rows[0])))},
        name="--counts",
    )


def _of_data(experiment: Experiment, split: str) -> tuple[BiasedDataset, Tensor]:
    """The labels of a split, and which of its groups are aligned in the training data."""
    judged, training = experiment.labels(split), experiment.labels("train")
    if judged.bias is None:
        raise CrossbiasError(
            f"a plan is about groups, and {judged.name} names no bias; name its column: --bias"
        )
    return judged, training.alignment()


def _print_groups(data: BiasedDataset, aligned: Tensor, accuracy: float, wanted: int) -> None:
    names = ("class", data.bias or "bias", "kind", "samples", "half-width")
    known = bool(aligned.any())
    table = make_table(
        *names, f"samples for {100 * _HALF:g} points",
        title=f"half-width of the 95% interval of an accuracy of {percent(accuracy, decimals=0)}",
    )  # fmt: skip
    for row, target in enumerate(data.classes):
        for column, value in enumerate(data.values[data.bias or ""]):
            n = int(data.counts()[row, column])
            kind = "aligned" if aligned[row, column] else "conflicting"
            half = f"{100 * planning.half_width(accuracy, n):.1f} points" if n else DASH
            cells = (target, value, kind if known else DASH, count(n), half, count(wanted))
            table.add_row(*map(escape, cells))
    print_table(table)


def _gain_lines(
    data: BiasedDataset, aligned: Tensor, needed: int, gain: float, differing: float
) -> list[str]:
    """How many conflicting samples a gain takes, and what those that are there can show."""
    need = (
        f"To see a gain of {100 * gain:.3g} points between two trained models with 80% power: "
        f"{count(needed)} conflicting samples, if only one of the two is right on "
        f"{percent(differing, decimals=0)} of them."
    )
    if not aligned.any():
        return [need, "No group is aligned, so which samples conflict is not known."]
    conflicting = int(data.counts()[~aligned].sum())
    seen = planning.gain_seen(conflicting, differing=differing)
    shown = (
        "too few to see any gain under this assumption"
        if seen is None
        else f"enough to see a gain of {100 * seen:.1f} points"
    )
    return [need, f"There are {count(conflicting)}, {shown}."]
