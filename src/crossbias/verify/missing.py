"""Labels that are missing more often in one class than in another."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from crossbias.formatting import count, p_value, percent
from crossbias.verify.bootstrap import generator_of

_DRAWS: Final = 4999
_CLEAR: Final = 0.01  # there may be a test for each attribute and split


def missing_by_class(missing: Sequence[int], total: Sequence[int], *, effect: float = 1.0) -> float:
    """The p-value that labels are missing in every class equally often.

    A permutation test: Pearson's chi-square statistic of the counts, among those where as many
    labels are missing from samples drawn at random. It holds for small counts too.

    Args:
        missing: Number of samples of each class without the label.
        total: Number of samples of each class.
        effect: Mean size of a cluster, such as the images of a patient. A label is then taken to
            be missing in whole clusters, so counts are those of so many fewer samples.

    >>> missing_by_class([40, 2], [100, 120]) < 0.001, missing_by_class([4, 5], [100, 120]) > 0.5
    (True, True)
    """
    sizes, found = (np.round(np.array(part) / effect).astype(np.int64) for part in (total, missing))
    sizes, found = sizes[sizes > 0], found[sizes > 0]
    if len(sizes) < 2 or not 0 < found.sum() < sizes.sum():
        return 1.0
    expected = found.sum() * sizes / sizes.sum()
    generator = generator_of("missing")
    drawn = generator.multivariate_hypergeometric(
        sizes, int(found.sum()), size=_DRAWS, method="marginals"
    )
    # Pearson's statistic, but for a factor that is the same for all of them.
    statistics = ((drawn - expected) ** 2 / sizes).sum(1)
    reached = statistics >= ((found - expected) ** 2 / sizes).sum() * (1 - 1e-9)
    return float((1 + reached.sum()) / (1 + _DRAWS))


def missing_warning(
    what: str,
    missing: Sequence[int],
    total: Sequence[int],
    classes: Sequence[str],
    *,
    effect: float = 1.0,
) -> str | None:
    """What to know where a label is missing in some classes more often; None where it is not.

    Args:
        what: The label.
        missing: Number of samples of each class without the label.
        total: Number of samples of each class.
        classes: Names of the classes.
        effect: As for ``missing_by_class``.
    """
    p = missing_by_class(missing, total, effect=effect)
    if p >= _CLEAR:
        return None
    present = [place for place, size in enumerate(total) if size]
    by_share = sorted(present, key=lambda place: missing[place] / total[place])
    most, least = (
        f"{percent(missing[place] / total[place])} of {classes[place]} "
        f"({count(missing[place])} of {count(total[place])})"
        for place in (by_share[-1], by_share[0])
    )
    return (
        f"whether {what} is known depends on the class: it is missing for {most}, but for {least} "
        f"({p_value(p)}, permutation test); numbers by group leave these samples out"
    )
