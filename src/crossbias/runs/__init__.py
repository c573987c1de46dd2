"""The run folder: how it is written, read and compared."""

from crossbias.runs.compare import Comparison, compare
from crossbias.runs.folder import RunFolder
from crossbias.runs.formats import FORMATS, to_csv, to_latex, to_markdown
from crossbias.runs.grids import Grid, grids_of, legend
from crossbias.runs.read import FinishedRun, read_run
from crossbias.runs.rows import METRICS, Number, Row

__all__ = [
    "FORMATS",
    "METRICS",
    "Comparison",
    "FinishedRun",
    "Grid",
    "Number",
    "Row",
    "RunFolder",
    "compare",
    "grids_of",
    "legend",
    "read_run",
    "to_csv",
    "to_latex",
    "to_markdown",
]
