"""``crossbias verify --plan``: what a test set of this size can show, before any training."""

import torch
from rich.markup import escape
from torch import Tensor

from crossbias.cli.printing import make_table, print_table, say
from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.experiment import Experiment
from crossbias.formatting import DASH, count, percent
from crossbias.verify import planning

_HALF = 0.05  # the half-width that the last column of the table asks for
_LARGEST = 1_000_000  # samples in all groups of --counts


def print_plan(
    *,
    counts: str | None,
    experiment: Experiment | None,
    split: str,
    gain: float,
    accuracy: float,
    differing: float,
    deviation: float,
) -> None:
    """Print how wide intervals will be, and which gains can be seen.

    Args:
        counts: Samples of each group as text; None where there is data.
        experiment: The data whose labels are counted; None where there are counts.
        split: Its split.
        gain: Difference of two accuracies to be seen.
        accuracy: Assumed accuracy in a group.
        differing: Assumed share of samples that only one of two models gets right.
        deviation: Assumed standard deviation of an accuracy over seeds.
    """
    if (counts is None) == (experiment is None):
        raise CrossbiasError(
            "a plan needs the number of samples in each group: give --counts 500,40,30,480 or "
            "--data, one of them"
        )
    if experiment is None:
        judged = _of_counts(counts or "")
        aligned = judged.alignment()
    else:
        judged, aligned = _of_data(experiment, split)
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
