"""Class-balanced sampling: plain training with the sampling of that name."""

import dataclasses

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM, ClassBalanced
from crossbias.testing import contract

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


@pytest.mark.parametrize("rule", contract(ClassBalanced, other_values={}), ids=str)
def test_contract(rule):
    rule.check()


def test_it_equals_plain_training_with_that_sampling(data, network):
    rare = data.subset((data.targets != 1) | (torch.arange(48) < 12))
    sampled = dataclasses.replace(CONFIG, sampling="class-balanced")
    own = crossbias.fit(ClassBalanced(), rare, network=network, config=CONFIG).network
    same = crossbias.fit(ERM(), rare, network=network, config=sampled).network
    plain = crossbias.fit(ERM(), rare, network=network, config=CONFIG).network
    assert torch.equal(own.head.weight, same.head.weight)
    assert not torch.equal(own.head.weight, plain.head.weight)


def test_another_sampling_in_the_configuration_is_refused(data, network):
    other = dataclasses.replace(CONFIG, sampling="group-balanced")
    with pytest.raises(CrossbiasError, match=r"class-balanced, but train\.sampling is 'group-b"):
        crossbias.fit(ClassBalanced(), data, network=network, config=other)
