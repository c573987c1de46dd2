"""A comparison as two grids of words: the rows, and their gains over the baseline."""

import math
from typing import NamedTuple

from crossbias.runs.compare import Comparison
from crossbias.runs.rows import Number, Row
from crossbias.verify import Estimate, McNemar


class Grid(NamedTuple):
    """A table of text."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def grids_of(comparison: Comparison) -> list[Grid]:
    """The table of accuracies and, of more than one row, the table of gains."""
    titles = tuple(name.replace("_", " ") for name in comparison.columns)
    by = f", by {comparison.attribute}" if comparison.attribute else ""
    main = Grid(
        f"{comparison.data}, split {comparison.split}{by}: % [95 % interval]",
        ("method", "supervision", "selection", "seeds", *titles),
        [_main_row(row, comparison) for row in comparison.rows],
    )
    gains = Grid(
        f"gain over {comparison.baseline.label} on the same samples: % points [95 % interval]",
        ("method", *titles),
        [_gain_row(row, comparison) for row in comparison.rows if row is not comparison.baseline],
    )
    return [main, gains] if gains.rows else [main]


def legend(comparison: Comparison) -> list[str]:
    """What the numbers mean, and what to know before reading them."""
    several = any(len(row.runs) > 1 for row in comparison.rows)
    parts = ["of one run, intervals are over test samples"]
    if several:
        parts[0] += "; of several seeds, ± is their standard deviation and intervals are Student's"
        parts.append("gains of several seeds are of their means; intervals are over test samples")
    if any(comparison.tests.values()):
        parts.append("p is McNemar's exact test, not corrected for the number of comparisons")
    return [*parts, *comparison.notes]


def _main_row(row: Row, comparison: Comparison) -> tuple[str, ...]:
    numbers = [_percent(row.cells[name]) for name in comparison.columns]
    return (row.label, row.supervision, row.selection, str(len(row.runs)), *numbers)


def _gain_row(row: Row, comparison: Comparison) -> tuple[str, ...]:
    gains, tests = comparison.gains[row.label], comparison.tests[row.label]
    return (row.label, *(_gain(gains.get(name), tests.get(name)) for name in comparison.columns))


def _percent(cell: Number | None) -> str:
    if cell is None:
        return "-"
    spread = "" if math.isnan(cell.deviation) else f" ± {100 * cell.deviation:.1f}"
    return f"{100 * cell.value:.1f}{spread} [{100 * cell.low:.1f}, {100 * cell.high:.1f}]"


def _gain(gain: Estimate | None, test: McNemar | None) -> str:
    if gain is None:
        return "-"
    p = "" if test is None else f" {_p_value(test.p)}"
    return f"{100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]{p}"


def _p_value(p: float) -> str:
    return "p<.001" if p < 0.001 else f"p={p:.3f}".replace("0.", ".", 1)
