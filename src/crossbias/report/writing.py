"""write_report: finished runs in, one file out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from crossbias.errors import CrossbiasError
from crossbias.report.audit_section import AuditFindings, check_same_data, read_audit
from crossbias.report.json_report import render as render_json
from crossbias.report.markdown_report import render as render_markdown
from crossbias.report.page import render as render_page
from crossbias.runs.compare import Comparison, compare
from crossbias.runs.files import write_atomically

Format = Literal["html", "md", "json"]
"""What a report can be."""

_RENDER: dict[str, Callable[[Comparison, AuditFindings | None], str]] = {
    "html": render_page,
    "md": render_markdown,
    "json": render_json,
}


def write_report(
    folders: Sequence[Path],
    output: Path,
    *,
    format: Format = "html",
    audit: Path | None = None,
) -> None:
    """Write one file that compares finished runs; it needs no network and no other file.

    Args:
        folders: Run folders, in the order they are listed.
        output: The file to write; an earlier one is replaced once the new one is whole.
        format: ``html``, a page with all figures; ``md``, its tables as Markdown; ``json``, its
            numbers for other programs.
        audit: The folder of an audit of the same data, whose findings are shown too.

    Raises:
        CrossbiasError: A folder is not a finished run, a file is damaged, the runs cannot be
            compared, or the file cannot be written.
    """
    if format not in _RENDER:
        raise CrossbiasError(f"a report is one of {', '.join(_RENDER)}, got {format!r}")
    comparison = compare(folders)
    found = None if audit is None else read_audit(audit)
    if found is not None:
        check_same_data(found, comparison.runs[0])
    text = _RENDER[format](comparison, found)
    # A name may hold half a character, of a file name that is not UTF-8; it is shown as "?".
    write_atomically(output, lambda file: file.write(text.encode(errors="replace")))
