"""The accuracies in the papers' tables, as each paper defines them."""

from collections.abc import Sequence
from typing import Final, Literal

from crossbias.errors import CrossbiasError
from crossbias.verify.accuracies import aligned, conflicting, mean_accuracy
from crossbias.verify.cells import Cells
from crossbias.verify.intervals import NO_SAMPLES, Estimate, mean_of_dependent

POPULATION: Final = {"paper": 11, "released": 10}
"""Smallest (class, cluster) cell that ReBias counts, in samples; the paper says more than 10."""


def majority(cells: Cells) -> Estimate:
    """PGD's M: accuracy over the samples whose bias goes along with their class."""
    return aligned(cells)


def minority(cells: Cells) -> Estimate:
    """PGD's m: accuracy over the samples whose bias conflicts with their class."""
    return conflicting(cells)


def biased(cells: Cells) -> Estimate:
    """ReBias's biased accuracy: the mean of the aligned cells, the diagonal of its Figure 3.

    ``unbiased`` is the mean of all cells. On a split in which the bias always goes along with the
    class, such as the biased test set of the release, this is the class-averaged accuracy.
    """
    return mean_accuracy(
        cells.correct[:, :-1][cells.alignment], cells.total[:, :-1][cells.alignment]
    )


def populated(cells: Cells, *, at_least: int) -> Estimate:
    """Mean of the cells with at least this many samples; ``NO_SAMPLES`` if there is none."""
    right, known = cells.correct[:, :-1], cells.total[:, :-1]
    kept = known >= at_least
    return mean_accuracy(right[kept], known[kept])


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
