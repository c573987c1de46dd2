"""What the report says about the training data: is the bias associated with the class at all?"""

from pathlib import Path
from typing import NamedTuple

import torch

from crossbias.runs.read import FinishedRun
from crossbias.types import UNKNOWN
from crossbias.verify import independence


class TrainingGroups(NamedTuple):
    """Training samples of known bias by group, and how many of them are aligned."""

    aligned: int
    total: int
    p: float  # of class and bias being independent, see ``independence``


def data_title(name: str) -> str:
    """A data set's name as a title has it: of a folder, its own name without the path.

    >>> data_title("glyphs"), data_title("folder:/home/me/faces/")
    ('glyphs', 'faces')
    """
    return Path(name.removeprefix("folder:")).name or name if name.startswith("folder:") else name


def main_metric(run: FinishedRun) -> str:
    """What methods are judged by: conflicting samples, or all where none is known to conflict."""
    conflicting = run.test.conflicting
    known = run.test.associated and conflicting is not None and conflicting.n > 0
    return "conflicting" if known else "overall"


def training_groups(run: FinishedRun) -> TrainingGroups | None:
    """The training samples of a run; None where it kept no labels or no bias is known."""
    facts = run.config["data"]
    # For each class, the names of the values that go along with it; numbered as in training.
    aligned = (facts.get("aligned") or {}).get(run.bias)
    if run.labels is None or not aligned or not any(aligned):
        return None
    values = facts["values"][run.bias]
    table = torch.tensor([[value in names for value in values] for names in aligned])
    target, bias = run.labels.target, run.labels.bias(run.bias)
    known = bias != UNKNOWN
    if not known.any():
        return None
    target, bias = target[known], bias[known]
    cluster = None if run.labels.cluster is None else run.labels.cluster[known]
    p = independence(target, bias, cluster=cluster)
    return TrainingGroups(int(table[target, bias].sum()), len(target), p)
