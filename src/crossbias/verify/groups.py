"""A group, (target, bias), and how well a model does on it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from crossbias.verify.intervals import Estimate


class Group(NamedTuple):
    """The samples of one class and one bias value, by name, and the accuracy on them."""

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
