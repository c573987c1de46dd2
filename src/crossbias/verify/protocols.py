"""The accuracies in the papers' tables, as each paper defines them."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.types import UNKNOWN
from crossbias.verify.accuracies import aligned, conflicting, mean_accuracy
from crossbias.verify.cells import Cells
from crossbias.verify.detection import place_of
from crossbias.verify.intervals import (
    NO_SAMPLES,
    Estimate,
    mean_of_dependent,
    mean_of_groups,
    wilson,
)
from crossbias.verify.predictions import Predictions

POPULATION: Final = {"paper": 11, "released": 10}
"""Smallest (class, cluster) cell that ReBias counts, in samples; the paper says more than 10."""


def majority(cells: Cells) -> Estimate:
    """PGD's M: accuracy over the samples whose bias goes along with their class."""
    return aligned(cells)


def minority(cells: Cells) -> Estimate:
    """PGD's m: accuracy over the samples whose bias conflicts with their class."""
    return conflicting(cells)


def biased(cells: Cells, *, effects: Tensor | None = None) -> Estimate:
    """ReBias's biased accuracy: the mean of the aligned cells, the diagonal of its Figure 3.

    ``unbiased`` is the mean of all cells. On a split in which the bias always goes along with the
    class, such as the biased test set of the release, this is the class-averaged accuracy.
    ``effects`` is as for ``rates_by_source``.
    """
    worth = 1.0 if effects is None else effects[cells.aligned]
    correct, total = (part[cells.aligned] for part in (cells.correct, cells.total))
    return mean_accuracy(correct / worth, total / worth)._replace(n=int(total.sum()))


def populated(cells: Cells, *, at_least: int) -> Estimate:
    """Mean of the cells with at least this many samples; ``NO_SAMPLES`` if there is none."""
    kept = cells.known & (cells.total >= at_least)
    return mean_accuracy(cells.correct[kept], cells.total[kept])


def texture_unbiased(
    clusterings: Sequence[Cells], *, variant: Literal["paper", "released"] = "paper"
) -> Estimate:
    """ReBias's unbiased accuracy on ImageNet: the mean of populated cells, over clusterings.

    Args:
        clusterings: The cells of the same samples under each clustering; the paper has three.
        variant: ``paper`` counts cells of more than 10 samples, ``released`` also those of 10.

    Returns:
        The mean over the clusterings. Its limits are the means of their limits, which are valid
        although the clusterings share their samples; ``n`` is the smallest of theirs.

    Raises:
        CrossbiasError: There is no clustering.
    """
    if not clusterings:
        raise CrossbiasError("the accuracy over clusterings needs the cells of at least one")
    means = [populated(cells, at_least=POPULATION[variant]) for cells in clusterings]
    if not all(mean.n for mean in means):
        return NO_SAMPLES
    return mean_of_dependent(means)._replace(n=min(mean.n for mean in means))


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


class Rates(NamedTuple):
    """How well a model does on the samples of one source, as in EnD's Table 5."""

    source: str
    true_positive: Estimate  # share of the positive samples that are found: sensitivity
    true_negative: Estimate  # share of the negative samples that are cleared: specificity
    balanced: Estimate  # the mean of the two; NO_SAMPLES if the source lacks one of the classes


def rates_by_source(
    cells: Cells, *, positive: str, effects: Tensor | None = None
) -> tuple[Rates, ...]:
    """The rates of each bias value, such as the hospital an X-ray comes from.

    A model that answers by the source has a high true positive rate where most samples are
    positive, and a high true negative rate where most are negative.

    Args:
        cells: The cells of two classes.
        positive: Name of the positive class.
        effects: ``(cells,)`` design effect of clusters in each cell: so many of its samples say as
            much as an independent one.

    Raises:
        CrossbiasError: There are not two classes, or ``positive`` is neither.
    """
    place = place_of(positive, cells.classes)
    if len(cells.classes) != 2:
        raise CrossbiasError(
            f"true positive rates by source need two classes, got the classes "
            f"{', '.join(cells.classes)}; for more classes use class_averaged"
        )
    effects = torch.ones(len(cells.total)) if effects is None else effects
    shares: dict[tuple[int, int], tuple[int, int, float]] = {
        (target, bias): (right, all_, effect)
        for target, bias, right, all_, effect in zip(
            *(part[cells.known].tolist()
              for part in (cells.target, cells.bias, cells.correct, cells.total, effects)),
            strict=True,
        )
    }  # fmt: skip
    found = []
    for column, source in enumerate(cells.biases):
        of_class = [shares.get((row, column), (0, 0, 1.0)) for row in (place, 1 - place)]
        first, second = (wilson(right, n, effect=effect) for right, n, effect in of_class)
        balanced = NO_SAMPLES
        if first.n and second.n:
            parts = [(right / effect, n / effect) for right, n, effect in of_class]
            balanced = mean_of_groups(*zip(*parts, strict=True))._replace(n=first.n + second.n)
        found.append(Rates(source, first, second, balanced))
    return tuple(found)


def _over_severities(right: Tensor, level: Tensor) -> Estimate:
    cells = [right[rows] for rows in _rows_of_each(level, torch.ones_like(right))]
    return mean_of_dependent([wilson(int(cell.sum()), len(cell)) for cell in cells])


def _rows_of_each(numbers: Tensor, wanted: Tensor) -> list[Tensor]:
    return [(numbers == number) & wanted for number in sorted(set(numbers[wanted].tolist()))]
