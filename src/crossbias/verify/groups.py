"""Groups, the samples of one class and one bias value, and the accuracy on each."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from crossbias.verify.intervals import Estimate

MIN_SAMPLES: Final = 12
"""With fewer samples, a 95% interval can be wider than half of all possible accuracies."""


class Group(NamedTuple):
    """One class and one bias value, by name, and the accuracy on their samples."""

    target: str
    bias: str
    accuracy: Estimate

    def to_json(self) -> dict[str, Any]:
        """The group as one flat JSON object."""
        return {"target": self.target, "bias": self.bias, **self.accuracy.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Group":
        """The group that ``to_json`` wrote."""
        return cls(value["target"], value["bias"], Estimate.from_json(value))


def small_groups(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups that have samples, but fewer than ``MIN_SAMPLES``."""
    return tuple(group for group in groups if 0 < group.accuracy.n < MIN_SAMPLES)


def small_group_warning(groups: Sequence[Group]) -> str | None:
    """What to know before reading numbers about these groups; None if all are large enough."""
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
