"""report: finished runs in, one file out."""

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from crossbias.errors import CrossbiasError
from crossbias.report.audit_section import AuditFindings, check_same_data, read_audit
from crossbias.runs.compare import Comparison, Folders, compare
from crossbias.runs.files import write_atomically

Format = Literal["html", "md", "json"]  # what a report can be

FORMATS: Final[tuple[Format, ...]] = get_args(Format)


@dataclass(frozen=True)
class Report:
    """A report that was written; a notebook shows it.

    Args:
        path: The file.
        format: What the file is.
    """

    path: Path
    format: Format

    def _repr_html_(self) -> str:
        """The page in a frame of its own; Markdown and JSON as text."""
        text = html.escape(self.path.read_text(encoding="utf-8"))
        if self.format == "html":
            # The page's own script sorts tables; the sandbox keeps it away from the notebook.
            style = "width: 100%; height: 48rem; border: 1px solid #ccc"
            return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{text}"></iframe>'
        return f'<pre style="max-height: 48rem; overflow: auto">{text}</pre>'


def report(
    runs: Folders,
    output: str | Path = "report.html",
    *,
    format: Format | None = None,
    audit: str | Path | None = None,
) -> Report:
    """Write one file that compares finished runs; it needs no network and no other file.

    Args:
        runs: Run folders, in the order in which they are listed.
        output: The file to write; an earlier one is replaced once the new one is complete.
        format: ``html``, a page with all figures; ``md``, its tables as Markdown; ``json``, its
            numbers for other programs. If left out, the ending of ``output`` decides; a page
            where it names none of these.
        audit: The folder of an audit of the same data, whose findings are shown too.

    Raises:
        CrossbiasError: A folder is not a finished run, a file is damaged, the runs cannot be
            compared, or the file cannot be written.
    """
    path = Path(output)
    ending = path.suffix.lower().removeprefix(".")
    chosen = format or next((each for each in FORMATS if each == ending), "html")
    if chosen not in FORMATS:
        raise CrossbiasError(f"a report is one of {', '.join(FORMATS)}, got {chosen!r}")
    comparison = compare(runs)
    found = None if audit is None else read_audit(Path(audit))
    if found is not None:
        check_same_data(found, comparison.runs[0])
    text = _rendered(chosen, comparison, found)
    # A name may hold half a character, of a file name that is not UTF-8; it is shown as "?".
    write_atomically(path, lambda file: file.write(text.encode(errors="replace")))
    return Report(path, chosen)


def _rendered(format: Format, comparison: Comparison, audit: AuditFindings | None) -> str:
    # Imported here, because importing the package must not import matplotlib and jinja2.
    match format:
        case "html":
            from crossbias.report.page import render
        case "md":
            from crossbias.report.markdown_report import render
        case "json":
            from crossbias.report.json_report import render
    return render(comparison, audit)
