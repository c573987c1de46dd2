"""A comparison as two grids of text: the rows, and their gains over the baseline."""

from collections.abc import Sequence
from typing import NamedTuple

from crossbias.formatting import DASH, p_value, percent_with_range, plus_minus
from crossbias.runs.compare import Comparison
from crossbias.runs.rows import NOISY, OF_POSITIVE, Number, Row, metric_title
from crossbias.verify import Estimate, McNemar
from crossbias.verify.multiplicity import simultaneous


class Grid(NamedTuple):
    """A table of text."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def grids_of(comparison: Comparison) -> list[Grid]:
    """The table of accuracies, that of a positive class, and that of gains, where there are any."""
    by = f", by {comparison.attribute}" if comparison.attribute else ""
    where = f"{comparison.data}, split {comparison.split}"
    usual = [name for name in comparison.metrics if name not in OF_POSITIVE]
    found = [name for name in comparison.metrics if name in OF_POSITIVE]
    grids = [_main_grid(f"{where}{by}: % [95% interval]", comparison, usual)] if usual else []
    if found:
        grids.append(_main_grid(f"{where}: % [95% interval]", comparison, found))
    return grids + gain_grids(comparison)


def gain_grids(comparison: Comparison) -> list[Grid]:
    """The table of gains; none where there is only one row."""
    gains = comparison.gains
    # Not every metric has a gain: the worst groups of two models are different samples.
    names = [name for name in comparison.metrics if any(name in each for each in gains.values())]
    if not names:
        return []
    title = (
        f"Gain over {comparison.baseline.label} on the same samples: % points "
        f"[95% interval{comparison.correction}]"
    )
    others = [row for row in comparison.rows if row is not comparison.baseline]
    rows = [_gain_row(row, comparison, names) for row in others]
    return [Grid(title, ("method", *_titles(names, comparison)), rows)]


def legend(comparison: Comparison) -> list[str]:
    """How to read the grids, what to know before reading them, and what went wrong."""
    about = [*about_rows(comparison), *about_gains(comparison), *comparison.notes]
    if detection := comparison.baseline.metrics[0].detection:
        name = detection.positive.name
        about.insert(0, f"A sample is called {name} if that is its most probable class.")
    if note := comparison.baseline.metrics[0].association_note:
        about.insert(0, f"By {comparison.attribute}: {note}.")
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
            "Student's t interval for the mean over seeds: it is about other trainings, not about "
            "other test samples."
        )
        shown = comparison.baseline.numbers
        wider = list(dict.fromkeys(NOISY[name] for name in NOISY if shown.get(name)))
        if any(map(_seeds_agree, comparison.rows)):
            wider.append("a number that is the same for all seeds")
        if wider:
            parts.append(
                f"The interval of {' and of '.join(wider)} is about other test samples as well."
            )
    metrics = comparison.baseline.metrics[0]
    worst = metrics.worst_note if "worst_group" in comparison.metrics else None
    return parts + [f"{note}." for note in (worst, metrics.cluster_note) if note]


def _seeds_agree(row: Row) -> bool:
    """Whether a number of the row is the same for all its seeds."""
    return any(number and number.deviation < 1e-9 for number in row.numbers.values())


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
        if others[1:]:
            confidence = 100 * simultaneous(0.95, len(others))
            parts.append(
                f"{len(others)} rows are compared with {baseline.label}. In each column, the "
                f"intervals of all gains hold together with 95% confidence, each by itself with "
                f"{confidence:.1f}% (Bonferroni)."
            )
    if any(comparison.tests.values()):
        corrected = ", corrected by Holm's method" if comparison.rows[2:] else ""
        parts.append(f"p is from McNemar's exact test{corrected}.")
    return parts


def _main_grid(title: str, comparison: Comparison, names: Sequence[str]) -> Grid:
    facts = [(row.label, row.supervision, row.selection, str(len(row.runs)))
             for row in comparison.rows]  # fmt: skip
    numbers = [[_percent(row.numbers[name]) for name in names] for row in comparison.rows]
    header = ("method", "supervision", "selection", "seeds", *_titles(names, comparison))
    rows = [(*fact, *shown) for fact, shown in zip(facts, numbers, strict=True)]
    return Grid(title, header, rows)


def _titles(names: Sequence[str], comparison: Comparison) -> list[str]:
    return [metric_title(name, comparison.baseline.metrics[0]) for name in names]


def _gain_row(row: Row, comparison: Comparison, names: Sequence[str]) -> tuple[str, ...]:
    gains, tests = comparison.gains[row.label], comparison.tests[row.label]
    return (row.label, *(_gain(gains.get(name), tests.get(name)) for name in names))


def _percent(number: Number | None) -> str:
    if number is None:
        return DASH
    return percent_with_range(*number[:3], after_value=plus_minus(number.deviation))


def _gain(gain: Estimate | None, test: McNemar | None) -> str:
    if gain is None:
        return DASH
    p = "" if test is None else f" {p_value(test.p)}"
    return percent_with_range(*gain[:3], sign="+") + p
