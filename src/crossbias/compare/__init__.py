"""Runs side by side: one row a method, over its seeds, and what differs on the same samples."""

from crossbias.compare.columns import COLUMNS
from crossbias.compare.formats import FORMATS, to_csv, to_latex, to_markdown
from crossbias.compare.grids import Grid, grids_of, legend
from crossbias.compare.rows import Cell, Row
from crossbias.compare.table import Comparison, compare_runs

__all__ = [
    "COLUMNS",
    "FORMATS",
    "Cell",
    "Comparison",
    "Grid",
    "Row",
    "compare_runs",
    "grids_of",
    "legend",
    "to_csv",
    "to_latex",
    "to_markdown",
]
