"""The report's tables as Markdown, for a repository or a chat; figures are left to the page."""

from collections.abc import Iterable, Sequence

from crossbias.formatting import (
    DASH,
    count,
    duration,
    markdown,
    percent,
    percent_range,
    plus_minus,
    settings,
)
from crossbias.report import tables
from crossbias.report.audit_section import AuditFindings
from crossbias.report.summary import selection, summary, supervision
from crossbias.runs.compare import Comparison
from crossbias.runs.grids import gain_grids, legend
from crossbias.runs.rows import Number, Row


def render(comparison: Comparison, audit: AuditFindings | None, title: str) -> str:
    """The report as Markdown."""
    rows = comparison.rows
    parts = [
        f"# {markdown(title)}",
        *(markdown(sentence.striptags()) for sentence in summary(comparison)),
        *_section(f"Accuracy on the {comparison.split} split", rows, tables.accuracy_table(rows)),
        *_gains(comparison),
        "\n".join(f"- {markdown(line)}" for line in legend(comparison)),
        *_section("Further measures", rows, tables.measure_table(comparison)),
    ]
    for name, columns in tables.attribute_tables(comparison).items():
        parts += _section(f"With respect to {name}", rows, columns)
    for split, columns in tables.split_tables(comparison).items():
        parts += _section(f"Accuracy on the {split} split", rows, columns)
    parts += [*_groups(comparison), *_audit(audit), *_training(rows), *_repeat(comparison)]
    return "\n\n".join(parts) + "\n"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table; every cell is shown as it is."""
    lines = [heads, *rows]
    texts = ["| " + " | ".join(map(markdown, line)) + " |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(heads), *texts[1:]])


def _section(title: str, rows: Sequence[Row], columns: Sequence[tables.MetricColumn]) -> list[str]:
    if not columns:
        return []
    lines = [
        [
            *(row.label, *(_cell(column.cells[place]) for column in columns)),
            *(len(row.runs), row.supervision, row.selection),
        ]
        for place, row in enumerate(rows)
    ]
    heads = ["Method", *(column.title for column in columns), "Seeds", "Supervision", "Selection"]
    return [f"## {markdown(title)}", "In parentheses: 95% intervals.", table(heads, lines)]


def _cell(cell: tables.TableCell) -> str:
    number = cell.number
    if number is None:
        return DASH
    return _accuracy(number) + (f", {cell.group}, n = {number.n}" if cell.group else "")


def _accuracy(number: Number) -> str:
    mean = percent(number.value) + plus_minus(number.deviation)
    return f"{mean} ({percent_range(number.low, number.high)})"


def _gains(comparison: Comparison) -> list[str]:
    return [
        part
        for grid in gain_grids(comparison)
        for part in (f"## {markdown(grid.title)}", table(grid.header, grid.rows))
    ]


def _groups(comparison: Comparison) -> list[str]:
    lines = [
        [
            *(group.target, group.bias, "aligned" if group.aligned else "conflicting"),
            *(count(group.n), *map(_accuracy, group.accuracies)),
        ]
        for group in tables.group_rows(comparison.rows)
    ]
    names = [row.label for row in comparison.rows]
    heads = ["Class", comparison.runs[0].bias or "bias", "Kind", "n", *names]
    return ["## Accuracy by group", table(heads, lines)] if lines else []


def _audit(audit: AuditFindings | None) -> list[str]:
    if audit is None:
        return []
    findings = [f"- {markdown(finding['sentence'])}" for finding in audit.findings]
    untested = [f"- not tested: {markdown(sentence)}" for sentence in audit.not_tested]
    listed = "\n".join(findings + untested)
    return ["## What the audit found", markdown(audit.sentence), *([listed] if listed else [])]


def _training(rows: Sequence[Row]) -> list[str]:
    lines = [
        [
            row.label,
            f"It {supervision(row.supervision)}.",
            selection(row.selection),
            settings(row.runs[0].config["method"]),
            duration(row.seconds),
        ]
        for row in rows
    ]
    heads = ["Method", "Supervision", "Model shown", "Settings", "Time"]
    return ["## Supervision and selection", table(heads, lines)]


def _repeat(comparison: Comparison) -> list[str]:
    hashes = [
        [name, *(run.hash_of(split) or "unknown" for split in ("train", run.split))]
        for name, run in zip(comparison.run_labels, comparison.runs, strict=True)
    ]
    # Indented code: no name can end it, unlike a fence.
    block = "\n".join("    " + " ".join(command.split()) for command in comparison.commands)
    heads = ["Method", "Hash of the training data", f"Hash of {comparison.split}"]
    return ["## Repeat it", block, table(heads, hashes)]
