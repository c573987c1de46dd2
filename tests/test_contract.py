"""The contract itself: what it makes of a method's own names."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
import torch.nn.functional as F

import crossbias
from crossbias.testing import contract


@dataclass(kw_only=True)
class Small(crossbias.Method):
    """Cross-entropy, with small logits if asked for.

    Args:
        weight: Of the squared logits.
        selection: Which logits are to be small. The engine has a setting of the same name.
    """

    paper: ClassVar[str] = "a test"
    supervision: ClassVar[str] = "none"

    weight: float = 1.0
    selection: Literal["none", "all"] = "none"

    def loss(self, batch):
        logits = self.network(batch.inputs).logits
        size = logits.square().mean() if self.selection == "all" else 0.0
        return {"loss": F.cross_entropy(logits, batch.target) + self.weight * size}


@pytest.mark.parametrize(
    "rule",
    contract(
        Small,
        other_values={"weight": 2.0, "selection": "all"},
        together={"weight": {"selection": "all"}},
    ),
    ids=str,
)
def test_a_hyper_parameter_may_be_called_as_a_setting_of_the_engine(rule):
    rule.check()


def test_a_hyper_parameter_without_effect_is_named():
    rules = {rule.name: rule for rule in contract(Small, other_values={"weight": 2.0})}
    with pytest.raises(AssertionError, match=r"weight=2\.0 changes nothing"):
        rules["weight changes the result"].check()
    with pytest.raises(AssertionError, match=r"differ in \['selection'\]"):
        rules["every hyper-parameter has another value here"].check()
