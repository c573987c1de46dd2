"""Accuracy on corrupted copies of a test set, as on ImageNet-C."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from crossbias.types import UNKNOWN
from crossbias.verify.intervals import Estimate, mean_of_dependent, wilson
from crossbias.verify.predictions import Predictions


def mean_corruption_accuracy(
    predictions: Predictions, *, corruption: str = "corruption", severity: str = "severity"
) -> Estimate:
    """The mean over corruptions of the mean over their severities (Hendrycks & Dietterich 2019).

    This is the accuracy that ReBias reports: one minus the corruption error, which is not
    divided by AlexNet's.

    Args:
        predictions: The answers to all copies. Samples whose corruption or severity is
            ``UNKNOWN``, such as clean ones, are left out.
        corruption: The attribute that names the corruption of a sample.
        severity: The attribute that gives its severity.

    Returns:
        The mean. Its limits are the means of the limits of all (corruption, severity) cells,
        which are valid although the copies show the same pictures.

    Raises:
        CrossbiasError: There is no such attribute.
    """
    kind, level = predictions.attribute(corruption), predictions.attribute(severity)
    right = predictions.answers == predictions.target
    known = (kind != UNKNOWN) & (level != UNKNOWN)
    return mean_of_dependent(
        [_over_severities(right[rows], level[rows]) for rows in _rows_of_each(kind, known)]
    )


def mean_over_corrupted_splits(overall: Mapping[str, Estimate]) -> Estimate:
    """The same mean where each corruption and severity is a split ``test-c-CORRUPTION-SEVERITY``.

    Args:
        overall: The accuracy on each split; splits with other names are left out.

    Returns:
        The mean over corruptions of the mean over severities; ``NO_SAMPLES`` without such splits.

    >>> fog = {f"test-c-fog-{severity}": wilson(9 - severity, 10) for severity in (1, 2)}
    >>> round(mean_over_corrupted_splits(fog | {"test-c-snow-1": wilson(3, 10)}).value, 3)
    0.525
    """
    severities: dict[str, list[Estimate]] = {}
    for split, accuracy in overall.items():
        if found := re.fullmatch(r"test-c-(.+)-\d+", split):
            severities.setdefault(found[1], []).append(accuracy)
    return mean_of_dependent([mean_of_dependent(each) for each in severities.values()])


def _over_severities(right: Tensor, level: Tensor) -> Estimate:
    cells = [right[rows] for rows in _rows_of_each(level, torch.ones_like(right))]
    return mean_of_dependent([wilson(int(cell.sum()), len(cell)) for cell in cells])


def _rows_of_each(numbers: Tensor, wanted: Tensor) -> list[Tensor]:
    return [(numbers == number) & wanted for number in sorted(set(numbers[wanted].tolist()))]
