"""What can be compared: every number of a run's test split, by name."""

from collections.abc import Callable
from typing import Final, NamedTuple

import torch

from crossbias.errors import CrossbiasError
from crossbias.parameters import closest
from crossbias.runs.read import FinishedRun
from crossbias.verify import (
    Cells,
    Estimate,
    Metrics,
    Predictions,
    accuracies,
    protocols,
)


class Judged(NamedTuple):
    """One run's test split with respect to one attribute."""

    metrics: Metrics
    cells: Cells
    predictions: Predictions
    attribute: str | None


COLUMNS: Final[dict[str, Callable[[Judged], Estimate | None]]] = {
    "overall": lambda run: accuracies.overall(run.cells),
    "aligned": lambda run: run.metrics.aligned,
    "conflicting": lambda run: run.metrics.conflicting,
    "unbiased": lambda run: run.metrics.unbiased,
    "worst_group": lambda run: run.metrics.worst_group and run.metrics.worst_group.accuracy,
    "class_averaged": lambda run: accuracies.class_averaged(run.cells),
    "biased": lambda run: protocols.biased(run.cells),
    "calibration": lambda run: run.metrics.calibration,
    "demographic_parity": lambda run: run.metrics.demographic_parity,
    "equalized_odds": lambda run: run.metrics.equalized_odds,
}
"""The numbers by name; None where a run has it not."""

DEFAULT: Final = ("overall", "aligned", "conflicting", "unbiased", "worst_group")


def judged(run: FinishedRun, attribute: str | None) -> Judged:
    """A run's test split with respect to an attribute; its own bias where None is named.

    Raises:
        CrossbiasError: The run has no such attribute, or no stored predictions.
    """
    predictions = run.predictions.get(run.split)
    if predictions is None:
        raise CrossbiasError(
            f"{run.path} has no predictions for its split {run.split!r}, so it cannot be compared "
            f"with others; train the run again"
        )
    name = run.bias if attribute is None else attribute
    metrics = run.test if name == run.bias else run.test.attributes.get(name or "")
    if metrics is None:
        known = [*filter(None, [run.bias]), *run.test.attributes]
        raise CrossbiasError(
            f"{run.path} has no metrics by attribute {name!r}{closest(name or '', known)}; "
            f"its attributes are: {', '.join(known) or 'none'}"
        )
    table = torch.tensor(metrics.aligned_groups, dtype=torch.bool)
    cells = predictions.cells(
        bias=name,
        alignment=table.view(len(metrics.classes), len(metrics.biases)),
        classes=metrics.classes,
        values=metrics.biases,
    )
    return Judged(metrics, cells, predictions, name)


def checked(names: list[str] | None) -> list[str]:
    """The columns asked for, or the usual ones.

    Raises:
        CrossbiasError: There is no such number.
    """
    for name in names or []:
        if name not in COLUMNS:
            raise CrossbiasError(
                f"there is no metric {name!r}{closest(name, COLUMNS)}; "
                f"there are: {', '.join(COLUMNS)}"
            )
    return list(names or DEFAULT)
