"""One self-contained HTML page about finished runs, made from their folders alone."""

from crossbias.report.page import write_report

__all__ = ["write_report"]
