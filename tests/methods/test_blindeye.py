"""The rows of LNL's Table 1: each is LNL with some keywords fixed, and keeps them."""

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import GRL, LNL, BlindEye, BlindEyeGRL
from crossbias.registry import create_method
from crossbias.testing import contract

SHARED = {
    "target": "color",
    "layer": "body.0",
    "from_biased": False,
    "biased_epochs": 1,
    "lr_factor": 0.5,
}
OTHER_VALUES = {
    BlindEye: SHARED | {"lambda_f": 0.5},
    GRL: SHARED | {"mu": 0.5},
    BlindEyeGRL: SHARED | {"lambda_f": 0.5, "mu": 0.5},
}
RULES = [
    pytest.param(rule, id=f"{kind.name}-{rule}")
    for kind, values in OTHER_VALUES.items()
    for rule in contract(kind, other_values=values)
]
FIXED = {
    "blindeye": {"unlearn": "confusion", "mu": 0.0},
    "grl": {"lambda_f": 0.0},
    "blindeye+grl": {"unlearn": "confusion"},
}
CONFIG = TrainConfig(epochs=1, batch_size=16, device="cpu", lr=0.01)


@pytest.mark.parametrize("rule", RULES)
def test_contract(rule):
    rule.check()


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("target", ["labels", "color"])
def test_a_row_is_lnl_with_its_keywords(name, target, data, network):
    row, same, lnl = (
        crossbias.fit(method, data, network=network, config=CONFIG).network.state_dict()
        for method in (
            create_method(name, target=target),
            LNL(target=target, **FIXED[name]),
            LNL(target=target),
        )
    )
    assert all(torch.equal(row[key], value) for key, value in same.items())
    assert not all(torch.equal(row[key], value) for key, value in lnl.items())


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("blindeye", {"mu": "0.1"}, r"mu of method 'blindeye' is fixed at 0\.0, got 0\.1"),
        ("blindeye", {"unlearn": "entropy"}, "unlearn .* fixed at 'confusion', got entropy"),
        ("grl", {"lambda_f": 0.01}, r"lambda_f of method 'grl' is fixed at 0\.0, got 0\.01"),
        ("grl", {"unlearn": "confusion"}, "unlearn of method 'grl' is fixed"),
        ("blindeye+grl", {"unlearn": "entropy"}, "or take the method 'lnl', where it can be set"),
    ],
)
def test_a_keyword_that_makes_another_row_of_it_is_refused(name, given, message):
    with pytest.raises(CrossbiasError, match=message):
        create_method(name, **given)


def test_a_row_inside_another_method_is_refused_in_the_same_way():
    with pytest.raises(CrossbiasError, match="mu of method 'blindeye' is fixed"):
        create_method("denoised", **{"inner": "blindeye", "inner.mu": "1"})


def test_supervision_is_what_the_target_needs():
    for name in FIXED:
        assert create_method(name).supervision == "bias labels"
        assert create_method(name, target="color").supervision == "kind of bias"
