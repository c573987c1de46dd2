"""One self-contained page about finished runs, made from their folders alone."""

from crossbias.report.writing import Report, report

__all__ = ["Report", "report"]
