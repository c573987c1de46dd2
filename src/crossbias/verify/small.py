"""Groups that are too small to say anything about, and the warning."""

from collections.abc import Sequence
from typing import Final

from crossbias.verify.groups import Group

MIN_SAMPLES: Final = 12
"""Of fewer samples, a 95 % interval can be wider than half of all possible accuracies."""


def small_groups(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups that have samples, but fewer than ``MIN_SAMPLES``."""
    return tuple(group for group in groups if 0 < group.accuracy.n < MIN_SAMPLES)


def small_group_warning(groups: Sequence[Group]) -> str | None:
    """What to know before reading numbers about these groups; None where all are large enough."""
    small, present = small_groups(groups), sum(group.accuracy.n > 0 for group in groups)
    if not small:
        return None
    smallest = min(small, key=lambda group: group.accuracy.n)
    samples = "sample" if smallest.accuracy.n == 1 else "samples"
    return (
        f"{len(small)} of {present} groups have fewer than {MIN_SAMPLES} samples, too few to say "
        f"anything about one of them; the smallest is ({smallest.target}, {smallest.bias}) with "
        f"{smallest.accuracy.n} {samples}"
    )
