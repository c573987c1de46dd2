"""One self-contained page about finished runs, made from their folders alone."""

from crossbias.report.writing import write_report

__all__ = ["write_report"]
