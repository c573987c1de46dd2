"""The report's numbers as JSON, for other programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from crossbias.report.audit_section import AuditFindings
from crossbias.report.summary import summary
from crossbias.runs.comparability import commands, differences, labels
from crossbias.runs.read import FinishedRun


def render(runs: Sequence[FinishedRun], audit: AuditFindings | None = None) -> str:
    """What the page says, as one JSON object; NaN does not occur in it."""
    found = None if audit is None else asdict(audit) | {"path": str(audit.path)}
    content = {
        "version": 1,
        "summary": [sentence.striptags() for sentence in summary(runs)],
        "data": runs[0].config["data"],
        "split": runs[0].split,
        "bias": runs[0].bias,
        "differences": differences(runs),
        "runs": [_run(name, run) for name, run in zip(labels(runs), runs, strict=True)],
        "commands": commands(runs),
        "audit": None if found is None else _without_pictures(found),
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _run(name: str, run: FinishedRun) -> dict[str, Any]:
    return {
        "name": name,
        "folder": str(run.path),
        "metrics": {split: metrics.to_json() for split, metrics in run.metrics.items()},
        "measures": {name: estimate.to_json() for name, estimate in run.measures.items()},
        "config": run.config,
    }


def _without_pictures(audit: dict[str, Any]) -> dict[str, Any]:
    """Pictures by their files, not their content; rows by the names of their parts."""
    rows = [row._asdict() for row in audit["rows"]]
    files = [picture.file for picture in audit["pictures"]]
    return audit | {"rows": rows, "pictures": files}
