"""The numbers of a report as tables: rows against metrics, and groups against rows."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from crossbias.report.training_data import main_metric
from crossbias.runs.compare import Comparison
from crossbias.runs.rows import (
    METRICS,
    OF_POSITIVE,
    USUAL_METRICS,
    Number,
    Row,
    metric_title,
    over_runs,
    rows_of,
    value_of,
)
from crossbias.verify import Estimate

SHOWN_METRICS: Final = ("conflicting", "worst_group", "aligned", "overall", "unbiased")

WITHOUT_ALIGNMENT: Final = ("overall", "worst_group", "unbiased")
"""What is shown where no group is aligned; every sample would count as conflicting."""

MOST_GROUPS: Final = 400
"""The table of groups has at most this many; beyond that, those with the lowest accuracy."""


class TableCell(NamedTuple):
    """One number of a table."""

    number: Number | None
    best: bool  # the highest of its column
    group: str  # the worst group's name; else empty


class MetricColumn(NamedTuple):
    """One metric of all rows."""

    title: str
    n: int | None  # samples, where it is the same for all rows
    cells: list[TableCell]


class Gains(NamedTuple):
    """By how much each row is better than the baseline in one metric, on the same samples."""

    metric: str
    of: Mapping[str, Estimate]  # by label; the baseline has none


class GroupRow(NamedTuple):
    """One group, with its accuracy in every row of the comparison."""

    target: str
    bias: str
    aligned: bool
    n: int
    accuracies: list[Number]


def accuracy_table(rows: Sequence[Row]) -> list[MetricColumn]:
    """A column for each usual accuracy, the most telling first.

    Those that need bias labels are there only where there are any.
    """
    associated = rows[0].metrics[0].associated
    return _columns(rows, SHOWN_METRICS if associated else WITHOUT_ALIGNMENT, mark_best=True)


def main_gains(comparison: Comparison) -> Gains | None:
    """The gains that the page shows beside the accuracies; None where there is only one row."""
    metric = main_metric(comparison.runs[0])
    found = {name: gains[metric] for name, gains in comparison.gains.items() if metric in gains}
    return Gains(metric, found) if found else None


def measure_table(comparison: Comparison) -> list[MetricColumn]:
    """A column for each other metric; none stands out, because low may be good."""
    names = [name for name in METRICS | OF_POSITIVE if name not in USUAL_METRICS]
    return _columns(rows_of(comparison.runs, names), names, mark_best=False)


def split_tables(comparison: Comparison) -> dict[str, list[MetricColumn]]:
    """The accuracies on the other splits that every run has."""
    found = [run.metrics for run in comparison.runs]
    shared = [split for split in found[0] if all(split in each for each in found)]
    return {
        split: accuracy_table(
            rows_of([run.judged_on(split) for run in comparison.runs], USUAL_METRICS)
        )
        for split in shared
        if split != comparison.split
    }


def attribute_tables(comparison: Comparison) -> dict[str, list[MetricColumn]]:
    """The accuracies by each attribute that is not the bias, where every run has them."""
    found = [run.test.attributes for run in comparison.runs]
    shared = [name for name in found[0] if all(name in each for each in found)]
    return {name: accuracy_table(rows_of(comparison.runs, USUAL_METRICS, name)) for name in shared}


def group_rows(rows: Sequence[Row]) -> list[GroupRow]:
    """The groups that have samples, in order, up to ``MOST_GROUPS``."""
    test = rows[0].metrics[0]
    aligned = dict(zip(test.classes, map(set, test.aligned_groups), strict=False))
    found = []
    # All runs are judged on the same samples, so they have the same groups.
    for place, (target, bias, accuracy) in enumerate(test.groups):
        each = [over_runs([one.groups[place].accuracy for one in row.metrics]) for row in rows]
        numbers = [number for number in each if number is not None]
        flag = bias in aligned.get(target, ())
        found.append(GroupRow(target, bias, flag, accuracy.n, numbers))
    worst = sorted(found, key=lambda row: sum(number.value for number in row.accuracies))
    kept = {id(row) for row in worst[:MOST_GROUPS]}
    return [row for row in found if id(row) in kept]


def _columns(rows: Sequence[Row], names: Sequence[str], *, mark_best: bool) -> list[MetricColumn]:
    """The columns of the metrics that the first run has, be it without samples."""
    known = [name for name in names if value_of(name, rows[0].metrics[0]) is not None]
    return [_column(rows, name, mark_best=mark_best) for name in known]


def _column(rows: Sequence[Row], name: str, *, mark_best: bool) -> MetricColumn:
    numbers = [row.numbers[name] for row in rows]
    best = max((number.value for number in numbers if number), default=None) if mark_best else None
    sizes = {number.n for number in numbers if number}
    cells = [
        TableCell(
            number,
            number is not None and number.value == best,
            worst_group_name(row) if name == "worst_group" else "",
        )
        for row, number in zip(rows, numbers, strict=True)
    ]
    title = metric_title(name, rows[0].metrics[0])
    title = title[0].upper() + title[1:]
    return MetricColumn(title, sizes.pop() if len(sizes) == 1 else None, cells)


def worst_group_name(row: Row) -> str:
    """Which group is the worst, where all runs of the row agree; else empty."""
    found = [metrics.worst_group for metrics in row.metrics]
    names = {f"{group.target}, {group.bias}" for group in found if group}
    return names.pop() if len(names) == 1 else ""
