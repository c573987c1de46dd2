"""An accuracy with the interval of the stratified bootstrap, beside the default of a formula."""

import numpy as np

from crossbias.errors import CrossbiasError
from crossbias.parameters import closest
from crossbias.verify.bootstrap import generator_of, stratified_mean
from crossbias.verify.cells import Cells
from crossbias.verify.intervals import Estimate
from crossbias.verify.weights import WEIGHTS


def bootstrapped(cells: Cells, name: str = "unbiased") -> Estimate:
    """An accuracy whose interval comes from resampling each cell with its own size.

    The value is that of the function of the same name; only the interval differs. A cell that is
    all right, or all wrong, has nothing to vary, so that near 0 and 1 the interval is too narrow
    and covers less often than it says; the default interval does not. Where every cell has many
    right and many wrong answers the two agree.

    Args:
        cells: The samples and right answers of each cell.
        name: A key of ``WEIGHTS``: the accuracies that are weighted means of the cells.

    Returns:
        The accuracy; ``NO_SAMPLES`` where no cell counts.

    Raises:
        CrossbiasError: There is no such accuracy.
    """
    if name not in WEIGHTS:
        raise CrossbiasError(
            f"there is no bootstrap interval of {name!r}{closest(name, WEIGHTS)}; "
            f"there is one of: {', '.join(WEIGHTS)}"
        )
    right, total = cells.correct.flatten().numpy(), cells.total.flatten().numpy()
    counts, steps = np.stack([total - right, right], axis=1), np.array([0.0, 1.0])
    weights = WEIGHTS[name](cells).flatten().numpy()
    return stratified_mean(counts, steps, weights, generator_of("accuracy", name))
