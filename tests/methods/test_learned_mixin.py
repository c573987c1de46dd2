"""LearnedMixin+H: each step is the loss written out, and the biased network stays as it is."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM, LearnedMixin
from crossbias.networks import create_network
from crossbias.testing import contract
from crossbias.train.run import Run

from .seeds import SEEDS
from .vectors import plain_bias

OTHER_VALUES = {
    "biased": "convnet",
    "entropy_weight": 0.1,
    "biased_epochs": 2,
    "train_head": False,
    "own_weight": 1.0,
}
SGD = TrainConfig(batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)


@pytest.mark.parametrize("rule", contract(LearnedMixin, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


@pytest.mark.parametrize(("train_head", "own_weight"), [(True, 0.0), (False, 0.0), (True, 0.5)])
def test_one_step_is_the_loss_written_out(train_head, own_weight, data):
    """With the head fixed, gradients still flow through it into the features of f."""
    start = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    method = LearnedMixin(entropy_weight=0.7, train_head=train_head, own_weight=own_weight)
    g = method.biased_network = create_network("mlp", num_classes=3, in_features=108)
    method.setup(Run(data, network=start, config=SGD))
    f, head = (copy.deepcopy(module.module) for module in (method.network, method.head))
    batch = next(method.run.loader(data).batches([torch.arange(48)]))
    losses = method.step(batch)
    output, bias = f(batch.inputs), g(batch.inputs).logits.detach().log_softmax(1)
    scaled = bias * F.softplus(head(output.features))
    task = F.cross_entropy(output.logits.log_softmax(1) + scaled, batch.target)
    entropy = torch.distributions.Categorical(logits=scaled).entropy().mean()
    assert float(losses["task"].detach()) == pytest.approx(task.item(), rel=1e-5)
    assert float(losses["entropy"].detach()) == pytest.approx(entropy.item(), rel=1e-5)
    own = F.cross_entropy(output.logits, batch.target)
    assert float(losses["own"].detach()) == pytest.approx(own.item(), rel=1e-5)
    (task + 0.7 * entropy + own_weight * own).backward()
    for ours, expected in ((method.network, f), (method.head, head)):
        moves = train_head or expected is f
        for found, before in zip(ours.parameters(), expected.parameters(), strict=True):
            moved = before - 0.1 * before.grad if moves else before
            torch.testing.assert_close(found, moved, rtol=1e-4, atol=1e-6)
    for found, before in zip(method.fixed_network.parameters(), g.parameters(), strict=True):
        assert torch.equal(found, before)
        assert not found.requires_grad


def test_the_trained_network_answers_without_the_biased_one(data, network):
    config = dataclasses.replace(SGD, epochs=1)
    result = crossbias.fit(LearnedMixin(), data, network=network, config=config)
    assert set(result.network.state_dict()) == set(network.state_dict())


def test_a_kind_of_bias_that_cannot_be_there_is_refused(data, network, tmp_path):
    gray = dataclasses.replace(data, inputs=data.inputs[:, :1].repeat(1, 3, 1, 1))
    options = {"network": network, "config": SGD, "folder": tmp_path / "run"}
    with pytest.raises(CrossbiasError, match=r"images of tiny are gray. Name one with biased"):
        crossbias.fit(LearnedMixin(), gray, **options)
    with pytest.raises(CrossbiasError, match="there is no network 'nowhere'"):
        crossbias.fit(LearnedMixin(biased="nowhere"), data, **options)
    with pytest.raises(CrossbiasError, match="biased names no network"):
        crossbias.fit(LearnedMixin(biased=""), data, **options)


def symptoms(method: LearnedMixin, data, network, **changes) -> dict[str, str]:
    config = dataclasses.replace(SGD, epochs=1, **changes)
    health = crossbias.fit(method, data, network=network, config=config).health
    return {symptom.name: symptom.sentence for symptom in health}


def test_networks_that_learned_nothing_are_named(data, network):
    found = symptoms(LearnedMixin(), data, network, lr=1e-9, seed=1)
    assert "learning beside it changes nothing" in found["biased network sees nothing"]
    assert "Without the biased network" in found["network left everything to the biased one"]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_right_on_more_conflicting_samples_than_plain_training(seed):
    train, test = plain_bias(800, 0.95, seed), plain_bias(1000, 0.5, seed + 100)
    config = TrainConfig(epochs=10, batch_size=64, lr=0.01, device="cpu", seed=seed)
    plain, mixed = (
        crossbias.fit(each, train, network="mlp", config=config).evaluate(test)["test"]
        for each in (ERM(), LearnedMixin(biased="mlp-first", entropy_weight=0.03))
    )
    assert mixed.conflicting.value > plain.conflicting.value + 0.05
    assert mixed.aligned.value > 0.9
