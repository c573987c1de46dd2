"""Class-balanced sampling: plain training with the sampling of that name."""

import dataclasses

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM, ClassBalanced
from crossbias.testing import contract

from .seeds import SEEDS
from .vectors import plain_bias

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


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_right_on_more_samples_of_a_rare_class_than_plain_training(seed):
    train, test = plain_bias(1600, 0.5, seed), plain_bias(1000, 0.5, seed + 100)
    rare = train.subset((train.targets == 0) | (torch.arange(1600) % 20 == 1))
    config = TrainConfig(epochs=10, batch_size=64, lr=0.01, device="cpu", seed=seed)
    of_rare = []
    for method in (ERM(), ClassBalanced()):
        network = crossbias.fit(method, rare, network="mlp", config=config).network
        with torch.no_grad():
            right = network(test.inputs).logits.argmax(1) == test.targets
        of_rare.append(float(right[test.targets == 1].float().mean()))
    plain, balanced = of_rare
    assert balanced > plain + 0.05
