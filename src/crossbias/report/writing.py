"""report: finished runs in, one file out."""

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from crossbias.errors import CrossbiasError
from crossbias.report.audit_section import AuditFindings, check_same_data, read_audit
from crossbias.report.pdf import find_browser, printed
from crossbias.report.training_data import data_title
from crossbias.runs.compare import Comparison, Folders, compare
from crossbias.runs.files import write_atomically

Format = Literal["html", "md", "json", "pdf"]  # what a report can be

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
        """The page in a frame of its own; Markdown and JSON as text; a PDF by its name."""
        if self.format == "pdf":
            return f"<p>{html.escape(str(self.path))}</p>"
        text = self.path.read_text(encoding="utf-8")
        if self.format == "html":
            return in_frame(text)
        return f'<pre style="max-height: 48rem; overflow: auto">{html.escape(text)}</pre>'


def in_frame(page: str) -> str:
    """A page as a notebook shows it: in a frame of its own."""
    # The page's own script sorts tables; the sandbox keeps it away from the notebook.
    style = "width: 100%; height: 48rem; border: 1px solid #ccc"
    text = html.escape(page)
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{text}"></iframe>'


def report(
    runs: Folders,
    output: str | Path = "report.html",
    *,
    format: Format | None = None,
    audit: str | Path | None = None,
    positive: str | None = None,
    title: str | None = None,
) -> Report:
    """Write one file that compares finished runs; it needs no network and no other file.

    Args:
        runs: Run folders, in the order in which they are listed.
        output: The file to write; an earlier one is replaced once the new one is complete.
        format: ``html``, a page with all figures; ``pdf``, the page printed by Chromium; ``md``,
            its tables as Markdown; ``json``, its numbers for other programs. If left out, the
            ending of ``output`` decides; a file without an ending is a page.
        audit: The folder of an audit of the same data, whose findings are shown too.
        positive: The class to be found: adds its sensitivity, specificity and AUC.
        title: The report's title; "Bias report" and the name of the data if left out.

    Raises:
        CrossbiasError: A folder is not a finished run, a file is damaged, the runs cannot be
            compared, no browser can print a PDF, or the file cannot be written.
    """
    path = Path(output)
    ending = path.suffix.lower().removeprefix(".")
    ending = {"": "html", "htm": "html"}.get(ending, ending)
    chosen = format or next((each for each in FORMATS if each == ending), None)
    if chosen not in FORMATS:
        raise CrossbiasError(f"a report is one of {', '.join(FORMATS)}, got {format or ending!r}")
    if chosen == "pdf":
        find_browser()  # refuse before the work, not after it
    comparison = compare(runs, positive=positive)
    found = None if audit is None else read_audit(Path(audit))
    if found is not None:
        check_same_data(found, comparison.runs[0])
    title = title or f"Bias report: {data_title(comparison.data)}"
    content = _rendered(chosen, comparison, found, title)
    write_atomically(path, lambda file: file.write(content))
    return Report(path, chosen)


def _rendered(
    format: Format, comparison: Comparison, audit: AuditFindings | None, title: str
) -> bytes:
    # Imported here, because importing the package must not import matplotlib and jinja2.
    match format:
        case "html" | "pdf":
            from crossbias.report.page import render
        case "md":
            from crossbias.report.markdown_report import render
        case "json":
            from crossbias.report.json_report import render
    text = render(comparison, audit, title)
    # A name may hold half a character, of a file name that is not UTF-8; it is shown as "?".
    return printed(text) if format == "pdf" else text.encode(errors="replace")
