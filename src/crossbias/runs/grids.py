"""A comparison as two grids of text: the rows, and their gains over the baseline."""

from collections.abc import Sequence
from typing import NamedTuple

from crossbias.formatting import DASH, p_value, percent_with_range, plus_minus
from crossbias.runs.compare import Comparison
from crossbias.runs.rows import Number, Row
from crossbias.verify import Estimate, McNemar


class Grid(NamedTuple):
    """A table of text."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def grids_of(comparison: Comparison) -> list[Grid]:
    """The table of accuracies and, where there is more than one row, the table of gains."""
    by = f", by {comparison.attribute}" if comparison.attribute else ""
    main = Grid(
        f"{comparison.data}, split {comparison.split}{by}: % [95% interval]",
        ("method", "supervision", "selection", "seeds", *map(_title, comparison.metrics)),
        [_main_row(row, comparison) for row in comparison.rows],
    )
    gains = comparison.gains
    # Not every metric has a gain: the worst groups of two models are different samples.
    names = [name for name in comparison.metrics if any(name in each for each in gains.values())]
    if not names:
        return [main]
    title = f"Gain over {comparison.baseline.label} on the same samples: % points [95% interval]"
    others = [row for row in comparison.rows if row is not comparison.baseline]
    rows = [_gain_row(row, comparison, names) for row in others]
    return [main, Grid(title, ("method", *map(_title, names)), rows)]


def legend(comparison: Comparison) -> list[str]:
    """How to read the grids, what to know before reading them, and what went wrong."""
    about = [*about_rows(comparison), *about_gains(comparison), *comparison.notes]
    return [*about, *comparison.health]


def about_rows(comparison: Comparison) -> list[str]:
    """What the intervals and deviations of the rows are."""
    sizes = [len(row.runs) for row in comparison.rows]
    parts = []
    if 1 in sizes:
        parts.append("For a single run, the interval is over test samples.")
    if max(sizes) > 1:
        parts.append(
            "For several seeds, ± is the standard deviation over seeds, and the interval is "
            "Student's t interval for the mean over seeds."
        )
    note = comparison.baseline.metrics[0].cluster_note
    return [*parts, f"{note}."] if note else parts


def about_gains(comparison: Comparison) -> list[str]:
    """What the intervals and p-values of the gains are."""
    parts = []
    if any(comparison.gains.values()):
        baseline, *others = sorted(comparison.rows, key=lambda row: row is not comparison.baseline)
        single = [row for row in others if min(len(row.runs), len(baseline.runs)) < 2]
        if len(single) < len(others):
            parts.append(
                "A gain over several seeds is the difference of the means; its interval takes "
                "both other trainings and other test samples into account."
            )
        if single:
            parts.append(
                "With one seed of a row or of the baseline, a gain is about these two trained "
                "models, not about the methods: another training may end elsewhere."
            )
    if any(comparison.tests.values()):
        parts.append(
            "p is from McNemar's exact test and is not corrected for the number of comparisons."
        )
    return parts


def _main_row(row: Row, comparison: Comparison) -> tuple[str, ...]:
    numbers = [_percent(row.numbers[name]) for name in comparison.metrics]
    return (row.label, row.supervision, row.selection, str(len(row.runs)), *numbers)


def _gain_row(row: Row, comparison: Comparison, names: Sequence[str]) -> tuple[str, ...]:
    gains, tests = comparison.gains[row.label], comparison.tests[row.label]
    return (row.label, *(_gain(gains.get(name), tests.get(name)) for name in names))


def _title(metric: str) -> str:
    return metric.replace("_", " ")


def _percent(number: Number | None) -> str:
    if number is None:
        return DASH
    return percent_with_range(*number[:3], after_value=plus_minus(number.deviation))


def _gain(gain: Estimate | None, test: McNemar | None) -> str:
    if gain is None:
        return DASH
    p = "" if test is None else f" {p_value(test.p)}"
    return percent_with_range(*gain[:3], sign="+") + p
