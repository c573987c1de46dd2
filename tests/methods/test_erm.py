"""Plain training keeps the contract."""

import pytest

from crossbias.methods import ERM
from crossbias.testing import contract


@pytest.mark.parametrize("rule", contract(ERM, other_values={}), ids=str)
def test_contract(rule):
    rule.check()
