"""The report's tables as Markdown, for a repository or a chat; figures are left to the page."""

from collections.abc import Iterable, Sequence

from crossbias.formatting import DASH, count, markdown, percent, percent_range
from crossbias.report.audit_section import AuditFindings
from crossbias.report.phrases import selection, settings, supervision
from crossbias.report.summary import summary
from crossbias.report.tables import (
    MetricColumn,
    TableCell,
    attribute_tables,
    comparison_table,
    group_rows,
    measure_table,
    other_tables,
)
from crossbias.runs.comparability import commands, differences, labels
from crossbias.runs.read import FinishedRun
from crossbias.verify import Estimate


def render(runs: Sequence[FinishedRun], audit: AuditFindings | None = None) -> str:
    """The report as Markdown."""
    tests = [run.test for run in runs]
    parts = [
        f"# Bias report: {markdown(runs[0].config['data']['name'])}",
        *(markdown(sentence.striptags()) for sentence in summary(runs)),
        *_section(f"Accuracy on the split {runs[0].split}", runs, comparison_table(tests)),
        *_differences(runs),
        *_section("Further measures", runs, measure_table(runs)),
    ]
    for name, columns in attribute_tables(runs).items():
        parts += _section(f"With respect to {name}", runs, columns)
    for split, columns in other_tables(runs).items():
        parts += _section(f"Accuracy on the split {split}", runs, columns)
    parts += [*_groups(runs), *_audit(audit), *_training(runs), *_repeat(runs)]
    return "\n\n".join(parts) + "\n"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table; every cell is shown as it is."""
    lines = [heads, *rows]
    texts = ["| " + " | ".join(map(markdown, line)) + " |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(heads), *texts[1:]])


def _section(title: str, runs: Sequence[FinishedRun], columns: Sequence[MetricColumn]) -> list[str]:
    if not columns:
        return []
    rows = [
        [name, run.config["supervision"], run.config["selection"], run.config["train"]["seed"]]
        + [_cell(column.cells[place]) for column in columns]
        for place, (name, run) in enumerate(zip(labels(runs), runs, strict=True))
    ]
    heads = ["Method", "Supervision", "Selection", "Seed", *(column.title for column in columns)]
    return [f"## {markdown(title)}", "In brackets: 95% intervals.", table(heads, rows)]


def _cell(cell: TableCell) -> str:
    estimate = cell.estimate
    if estimate is None or not estimate.n:
        return DASH
    return _accuracy(estimate) + (f", {cell.group}, n = {estimate.n}" if cell.group else "")


def _accuracy(estimate: Estimate) -> str:
    return f"{percent(estimate.value)} ({percent_range(estimate.low, estimate.high)})"


def _differences(runs: Sequence[FinishedRun]) -> list[str]:
    found = differences(runs)
    if not found:
        return []
    return [f"**These runs differ in more than their method: {markdown(', '.join(found))}.**"]


def _groups(runs: Sequence[FinishedRun]) -> list[str]:
    rows = [
        [
            *(row.target, row.bias, "aligned" if row.aligned else "conflicting"),
            *(count(row.accuracies[0].n), *map(_accuracy, row.accuracies)),
        ]
        for row in group_rows([run.test for run in runs])
    ]
    heads = ["Class", runs[0].bias or "bias", "FigureKind", "n", *labels(runs)]
    return ["## Accuracy by group", table(heads, rows)] if rows else []


def _audit(audit: AuditFindings | None) -> list[str]:
    if audit is None:
        return []
    findings = [f"- {markdown(finding['sentence'])}" for finding in audit.findings]
    untested = [f"- not tested: {markdown(sentence)}" for sentence in audit.not_tested]
    listed = "\n".join(findings + untested)
    return ["## What the audit found", markdown(audit.sentence), *([listed] if listed else [])]


def _training(runs: Sequence[FinishedRun]) -> list[str]:
    rows = [
        [
            name,
            f"It {supervision(str(run.config['supervision']))}.",
            selection(str(run.config["selection"])),
            settings(run.config["method"]),
        ]
        for name, run in zip(labels(runs), runs, strict=True)
    ]
    heads = ["Method", "Supervision", "Model shown", "Settings"]
    return ["## Supervision and selection", table(heads, rows)]


def _repeat(runs: Sequence[FinishedRun]) -> list[str]:
    hashes = [
        [name, *(run.hash_of(split) or "unknown" for split in ("train", run.split))]
        for name, run in zip(labels(runs), runs, strict=True)
    ]
    # Indented code: no name can end it, unlike a fence.
    block = "\n".join("    " + " ".join(command.split()) for command in commands(runs))
    heads = ["Method", "Hash of the training data", f"Hash of {runs[0].split}"]
    return ["## Repeat it", block, table(heads, hashes)]
