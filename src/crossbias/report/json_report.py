"""The report's numbers as JSON, for other programs."""

import json
import math
from typing import Any

from crossbias.formatting import as_json
from crossbias.report.audit_section import AuditFindings
from crossbias.report.summary import summary
from crossbias.runs.compare import Comparison, differences
from crossbias.runs.rows import Number, Row


def render(comparison: Comparison, audit: AuditFindings | None, title: str) -> str:
    """What the page says, as one JSON object; NaN does not occur in it."""
    runs = zip(comparison.run_labels, comparison.runs, strict=True)
    content = {
        "version": 1,
        "title": title,
        "summary": [sentence.striptags() for sentence in summary(comparison)],
        "data": comparison.runs[0].config["data"],
        "split": comparison.split,
        "bias": comparison.attribute,
        "differences": differences(comparison.runs),
        "notes": comparison.notes,
        "baseline": comparison.baseline.label,
        "comparisons": len(comparison.gains),  # for which gains and p are corrected
        "rows": [_row(comparison, row) for row in comparison.rows],
        "runs": [
            {
                "name": name,
                "folder": str(run.path),
                "metrics": as_json(run.metrics),
                "config": run.config,
            }
            for name, run in runs
        ],
        "commands": comparison.commands,
        "audit": audit and _audit(audit),
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _row(comparison: Comparison, row: Row) -> dict[str, Any]:
    gains = comparison.gains.get(row.label, {})
    tests = comparison.tests.get(row.label, {})
    return {
        "name": row.label,
        "supervision": row.supervision,
        "selection": row.selection,
        "seeds": [run.seed for run in row.runs],
        "folders": [str(run.path) for run in row.runs],
        "metrics": {name: _number(number) for name, number in row.numbers.items()},
        "gains": as_json(gains),
        "p": {name: test.p for name, test in tests.items()},
        "health": row.health,
    }


def _number(number: Number | None) -> dict[str, Any] | None:
    if number is None:
        return None
    deviation = None if math.isnan(number.deviation) else number.deviation
    return number._asdict() | {"deviation": deviation}


def _audit(audit: AuditFindings) -> dict[str, Any]:
    """The findings; pictures by their files, not their content."""
    files = [picture.file for picture in audit.pictures]
    return {**as_json(audit), "path": audit.path and str(audit.path), "pictures": files}
