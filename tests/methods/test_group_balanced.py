"""Group-balanced sampling: plain training with the sampling of that name."""

import dataclasses

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM, GroupBalanced
from crossbias.testing import contract

from .seeds import SEEDS
from .shortcuts import shortcut_data

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


@pytest.mark.parametrize("rule", contract(GroupBalanced, other_values={}), ids=str)
def test_contract(rule):
    rule.check()


def test_it_equals_plain_training_with_that_sampling(data, network):
    rare = data.subset((data.targets != 1) | (torch.arange(48) < 12))
    sampled = dataclasses.replace(CONFIG, sampling="group-balanced")
    own = crossbias.fit(GroupBalanced(), rare, network=network, config=CONFIG).network
    same = crossbias.fit(ERM(), rare, network=network, config=sampled).network
    plain = crossbias.fit(ERM(), rare, network=network, config=CONFIG).network
    assert torch.equal(own.head.weight, same.head.weight)
    assert not torch.equal(own.head.weight, plain.head.weight)


def test_another_sampling_in_the_configuration_is_refused(data, network):
    other = dataclasses.replace(CONFIG, sampling="class-balanced")
    with pytest.raises(CrossbiasError, match=r"group-balanced, but train\.sampling is 'class-b"):
        crossbias.fit(GroupBalanced(), data, network=network, config=other)


@pytest.mark.parametrize("seed", SEEDS)
def test_conflicting_images_are_right_that_plain_training_gets_wrong(seed):
    train, test = shortcut_data(900, seed=seed), shortcut_data(600, seed=seed, split="test")
    config = TrainConfig(epochs=4, batch_size=32, device="cpu", lr=0.003, seed=seed)
    plain, balanced = (
        crossbias.fit(method, train, network="mlp", config=config).evaluate(test)["test"]
        for method in (ERM(), GroupBalanced())
    )
    assert plain.aligned.value > 0.95
    assert balanced.aligned.value > 0.95
    assert balanced.conflicting.value > plain.conflicting.value + 0.3
