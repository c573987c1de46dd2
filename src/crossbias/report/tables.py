"""The numbers of a report as tables: runs against metrics, and groups against runs."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from crossbias.runs.read import FinishedRun
from crossbias.verify import Estimate, Metrics

MOST_GROUPS: Final = 400
"""Rows of the table of groups; of more, the ones with the lowest accuracy are shown."""

_COLUMNS: Final[dict[str, Callable[[Metrics], Estimate | None]]] = {
    "Overall": lambda metrics: metrics.overall,
    "Aligned": lambda metrics: metrics.aligned,
    "Conflicting": lambda metrics: metrics.conflicting,
    "Unbiased": lambda metrics: metrics.unbiased,
    "Worst group": lambda metrics: metrics.worst_group.accuracy if metrics.worst_group else None,
}


class TableCell(NamedTuple):
    """One number of a comparison table."""

    estimate: Estimate | None
    best: bool  # the highest of its column
    group: str  # which group it is of, for the worst group; else empty


class MetricColumn(NamedTuple):
    """One metric of all runs."""

    title: str
    n: int | None  # samples, where it is the same for all runs
    cells: list[TableCell]


class GroupRow(NamedTuple):
    """One group, with its accuracy in every run."""

    target: str
    bias: str
    aligned: bool
    accuracies: list[Estimate]


def comparison_table(metrics: Sequence[Metrics]) -> list[MetricColumn]:
    """A column for each metric that at least one run has."""
    columns = (_column(title, metrics) for title in _COLUMNS)
    return [column for column in columns if any(cell.estimate for cell in column.cells)]


def other_tables(runs: Sequence[FinishedRun]) -> dict[str, list[MetricColumn]]:
    """The tables of the splits that the runs are not judged by, where every run has them."""
    shared = [split for split in runs[0].metrics if all(split in run.metrics for run in runs)]
    return {
        split: comparison_table([run.metrics[split] for run in runs])
        for split in shared
        if split != runs[0].split
    }


def attribute_tables(runs: Sequence[FinishedRun]) -> dict[str, list[MetricColumn]]:
    """The tables of the attributes that are not the bias, where every run has them."""
    found = [run.test.attributes for run in runs]
    shared = [name for name in found[0] if all(name in each for each in found)]
    return {name: comparison_table([each[name] for each in found]) for name in shared}


def measure_table(runs: Sequence[FinishedRun]) -> list[MetricColumn]:
    """Further numbers that the runs carry, a column each; none stands out, low may be good."""
    names = list(dict.fromkeys(name for run in runs for name in run.measures))
    return [
        MetricColumn(
            name.replace("_", " ").capitalize(),
            None,
            [TableCell(run.measures.get(name), False, "") for run in runs],
        )
        for name in names
    ]


def group_rows(tests: Sequence[Metrics]) -> list[GroupRow]:
    """The groups that have samples, in order; of too many, those with the lowest accuracy."""
    aligned = [flag for row in tests[0].aligned_groups for flag in row]
    rows = [
        GroupRow(group.target, group.bias, flag, [test.groups[place].accuracy for test in tests])
        for place, (group, flag) in enumerate(zip(tests[0].groups, aligned, strict=True))
        if group.accuracy.n
    ]
    worst = sorted(rows, key=lambda row: sum(accuracy.value for accuracy in row.accuracies))
    kept = {id(row) for row in worst[:MOST_GROUPS]}
    return [row for row in rows if id(row) in kept]


def _column(title: str, metrics: Sequence[Metrics]) -> MetricColumn:
    estimates = [_COLUMNS[title](each) for each in metrics]
    best = max((each.value for each in estimates if each and each.n), default=None)
    sizes = {each.n for each in estimates if each}
    cells = [
        TableCell(estimate, estimate is not None and estimate.value == best, _worst(title, each))
        for estimate, each in zip(estimates, metrics, strict=True)
    ]
    return MetricColumn(title, sizes.pop() if len(sizes) == 1 else None, cells)


def _worst(title: str, metrics: Metrics) -> str:
    worst = metrics.worst_group
    return f"{worst.target}, {worst.bias}" if worst and title == "Worst group" else ""
