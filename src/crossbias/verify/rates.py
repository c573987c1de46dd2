"""True positive and true negative rates for each bias value, with two classes."""

from typing import NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.verify.cells import Cells
from crossbias.verify.intervals import NO_SAMPLES, Estimate, mean_of_groups, wilson


class Rates(NamedTuple):
    """How well a model does on the samples of one source, as in EnD's Table 5."""

    source: str
    true_positive: Estimate  # share of the positive samples that are found: sensitivity
    true_negative: Estimate  # share of the negative samples that are cleared: specificity
    balanced: Estimate  # the mean of the two; NO_SAMPLES if the source lacks one of the classes


def rates_by_source(cells: Cells, *, positive: int = 1) -> tuple[Rates, ...]:
    """The rates of each bias value, such as the hospital an X-ray comes from.

    A model that answers by the source has a high true positive rate where most samples are
    positive, and a high true negative rate where most are negative.

    Args:
        cells: The cells of two classes.
        positive: The class number that counts as positive.

    Raises:
        CrossbiasError: There are not two classes, or ``positive`` is neither.
    """
    if len(cells.classes) != 2 or positive not in (0, 1):
        raise CrossbiasError(
            f"true positive rates need two classes and positive 0 or 1, got the classes "
            f"{', '.join(cells.classes)} and positive {positive}; "
            f"for more classes use class_averaged"
        )
    correct, total = cells.correct.tolist(), cells.total.tolist()
    rows = (positive, 1 - positive)
    return tuple(
        _rates(source, [correct[row][column] for row in rows], [total[row][column] for row in rows])
        for column, source in enumerate(cells.biases)
    )


def _rates(source: str, correct: list[int], total: list[int]) -> Rates:
    balanced = mean_of_groups(correct, total) if all(total) else NO_SAMPLES
    return Rates(source, wilson(correct[0], total[0]), wilson(correct[1], total[1]), balanced)
