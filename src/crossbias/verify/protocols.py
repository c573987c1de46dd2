"""The numbers of the papers' tables, as each paper defines them."""

from collections.abc import Sequence
from typing import Final, Literal

from crossbias.errors import CrossbiasError
from crossbias.verify.accuracies import aligned, conflicting, mean_accuracy
from crossbias.verify.cells import Cells
from crossbias.verify.intervals import NO_SAMPLES, Estimate, mean_of_dependent

POPULATION: Final = {"paper": 11, "released": 10}
"""Fewest samples of a (class, cluster) cell that ReBias counts: the paper says more than 10."""


def majority(cells: Cells) -> Estimate:
    """PGD's M: the samples whose bias goes along with their class, each counting the same."""
    return aligned(cells)


def minority(cells: Cells) -> Estimate:
    """PGD's m: the samples whose bias conflicts with their class, each counting the same."""
    return conflicting(cells)


def biased(cells: Cells) -> Estimate:
    """ReBias's biased accuracy: the mean of the aligned cells, the diagonal of its Figure 3.

    ``unbiased`` is the mean of all cells. On a split where the bias always goes along with the
    class, as the release's biased test set, it is the class-averaged accuracy.
    """
    return mean_accuracy(
        cells.correct[:, :-1][cells.alignment], cells.total[:, :-1][cells.alignment]
    )


def populated(cells: Cells, *, at_least: int) -> Estimate:
    """Mean of the cells with at least so many samples; ``NO_SAMPLES`` where no cell has them."""
    right, known = cells.correct[:, :-1], cells.total[:, :-1]
    kept = known >= at_least
    return mean_accuracy(right[kept], known[kept])


def texture_unbiased(
    clusterings: Sequence[Cells], *, variant: Literal["paper", "released"] = "paper"
) -> Estimate:
    """ReBias's unbiased accuracy on ImageNet: the populated cells' mean, over clusterings.

    Args:
        clusterings: The cells of the same samples under each clustering; the paper has three.
        variant: ``paper`` counts cells of more than 10 samples, ``released`` those of 10 too.

    Returns:
        The mean over the clusterings. Its limits are the means of theirs, which hold although
        the clusterings share their samples; ``n`` is that of the clustering that counts fewest.

    Raises:
        CrossbiasError: There is no clustering.
    """
    if not clusterings:
        raise CrossbiasError("the accuracy over clusterings needs the cells of at least one")
    means = [populated(cells, at_least=POPULATION[variant]) for cells in clusterings]
    if not all(mean.n for mean in means):
        return NO_SAMPLES
    return mean_of_dependent(means)._replace(n=min(mean.n for mean in means))
