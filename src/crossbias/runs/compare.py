"""The comparison: rows, their differences to the baseline, and what to know before reading it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from crossbias.runs.columns import checked
from crossbias.runs.comparability import differences, read_runs
from crossbias.runs.rows import Row, rows_of
from crossbias.verify import (
    WEIGHTS,
    Estimate,
    McNemar,
    check_same_samples,
    mcnemar,
    paired_difference,
)

_OF_SAMPLES = ("overall", "aligned", "conflicting")  # what McNemar's test is about


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """Runs of the same data, side by side.

    Args:
        columns: The numbers compared, keys of ``COLUMNS``.
        rows: One for each method and configuration.
        baseline: The row that the others are compared with: plain training, or else the first.
        gains: For each other row, how much higher each accuracy is than the baseline's, on the
            same test samples; of several seeds, their mean.
        tests: For each other row, McNemar's test where both rows are a single run.
        data: Name of the data set.
        split: The split all runs are judged on.
        attribute: The attribute that tells aligned from conflicting; None without one.
        notes: What to know before reading the table.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    baseline: Row
    gains: dict[str, dict[str, Estimate]]
    tests: dict[str, dict[str, McNemar]]
    data: str
    split: str
    attribute: str | None
    notes: tuple[str, ...]


def compare_runs(
    folders: Sequence[Path],
    *,
    columns: list[str] | None = None,
    attribute: str | None = None,
    split: str | None = None,
) -> Comparison:
    """Compare finished runs of the same data.

    Args:
        folders: Run folders.
        columns: Which numbers, keys of ``COLUMNS``; the five usual accuracies if left out.
        attribute: Judge by another attribute than the runs' own bias.
        split: Judge on another split than the usual one, which is ``test``.

    Raises:
        CrossbiasError: A folder is not a finished run, a file is missing or damaged, the runs
            were judged on different data, or one training is named twice.
    """
    names = checked(columns)
    runs = read_runs(folders, what="table", split=split)
    rows = rows_of(runs, names, attribute)
    baseline = next((row for row in rows if row.runs[0].method == "erm"), rows[0])
    others = [row for row in rows if row is not baseline]
    for row in rows:
        for part in row.judged:
            check_same_samples(baseline.judged[0].predictions, part.predictions)
    return Comparison(
        columns=tuple(names),
        rows=tuple(rows),
        baseline=baseline,
        gains={row.label: _gains(baseline, row, names) for row in others},
        tests={row.label: _tests(baseline, row, names) for row in others},
        data=str(runs[0].config["data"]["name"]),
        split=runs[0].split,
        attribute=baseline.judged[0].attribute,
        notes=tuple(_notes(rows)),
    )


def _gains(baseline: Row, row: Row, names: Sequence[str]) -> dict[str, Estimate]:
    cells = baseline.judged[0].cells
    cell = _cell_of_each(baseline)
    found = {
        name: paired_difference(
            _right(baseline), _right(row), cell=cell, weights=WEIGHTS[name](cells).flatten()
        )
        for name in names
        if name in WEIGHTS
    }
    return {name: gain for name, gain in found.items() if gain.n}


def _tests(baseline: Row, row: Row, names: Sequence[str]) -> dict[str, McNemar]:
    if len(baseline.runs) > 1 or len(row.runs) > 1:
        return {}
    cells, cell = baseline.judged[0].cells, _cell_of_each(baseline)
    counted = {name: WEIGHTS[name](cells).flatten()[cell] > 0 for name in _OF_SAMPLES}
    first, second = _right(baseline) > 0, _right(row) > 0
    return {
        name: mcnemar(first[counted[name]], second[counted[name]])
        for name in names
        if name in _OF_SAMPLES and counted[name].any()
    }


def _right(row: Row) -> Tensor:
    """How often each test sample is answered rightly, over the row's runs."""
    parts = [part.predictions for part in row.judged]
    return torch.stack([(each.answers == each.target).double() for each in parts]).mean(0)


def _cell_of_each(row: Row) -> Tensor:
    """The cell of each test sample; of unknown bias, the last column's."""
    part = row.judged[0]
    width = len(part.cells.biases) + 1
    bias = part.predictions.attribute(part.attribute)
    return part.predictions.target * width + bias.remainder(width)


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = []
    found = differences([run for row in rows for run in row.runs])
    if found:
        notes.append(f"the rows differ in more than method and seed: {', '.join(found)}")
    seeds = {len(row.runs) for row in rows}
    if len(seeds) > 1:
        notes.append("the rows are over different numbers of seeds")
    warning = rows[0].judged[0].metrics.warning
    return [*notes, *([warning] if warning else [])]
