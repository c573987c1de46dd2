"""The page of an audit: what ``audit.json`` holds, for people."""

from collections.abc import Mapping
from typing import Any

from crossbias.report.audit_section import findings_of
from crossbias.report.templates import render_template
from crossbias.report.training_data import data_title


def audit_page(content: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """The page as text, from the content of ``audit.json`` and its picture files."""
    audit = findings_of(content, lambda file: pictures.get(file, b""))
    title = f"Audit: {data_title(str(audit.data['name']))}"
    return render_template("audit_page.html", audit=audit, title=title)
