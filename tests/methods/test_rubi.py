"""RUBi: each step is the loss written out, and g learns nothing from it."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM, RUBi
from crossbias.testing import contract
from crossbias.train.run import Run

from .seeds import SEEDS
from .vectors import plain_bias_of_four

OTHER_VALUES = {"biased": "convnet", "bias_weight": 0.1, "train_head": False}
SGD = TrainConfig(batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)


@pytest.mark.parametrize("rule", contract(RUBi, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


def prepared(method: RUBi, data) -> tuple[RUBi, list[nn.Module]]:
    """A method before its first step, and copies of f, g and c."""
    start = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    method.setup(Run(data, network=start, config=SGD))
    built = (method.network, method.biased_network, method.head)
    return method, [copy.deepcopy(module.module) for module in built]


@pytest.mark.parametrize("train_head", [True, False])
def test_one_step_is_the_loss_written_out(train_head, data):
    """With the head fixed, f is trained under a mask that stays; g by its own loss either way."""
    method = RUBi(biased="mlp", bias_weight=0.7, train_head=train_head)
    method, (f, g, c) = prepared(method, data)
    batch = next(method.run.loader(data).batches([torch.arange(48)]))
    losses = method.step(batch)
    mask = c(g(batch.inputs).features.detach())
    masked = f(batch.inputs).logits * torch.sigmoid(mask)
    loss = F.cross_entropy(masked, batch.target) + 0.7 * F.cross_entropy(mask, batch.target)
    assert float(losses["loss"].detach()) == pytest.approx(loss.item(), rel=1e-5)
    loss.backward()
    assert all(parameter.grad is None for parameter in g.parameters())
    F.cross_entropy(g(batch.inputs).logits, batch.target).backward()
    for ours, expected in (
        (method.network, f), (method.biased_network, g), (method.head, c)
    ):  # fmt: skip
        moves = train_head or expected is not c
        for found, start in zip(ours.parameters(), expected.parameters(), strict=True):
            moved = start - 0.1 * start.grad if moves else start
            torch.testing.assert_close(found, moved, rtol=1e-4, atol=1e-6)


def test_the_trained_network_answers_without_the_mask(data, network):
    config = dataclasses.replace(SGD, epochs=1)
    result = crossbias.fit(RUBi(), data, network=network, config=config)
    assert set(result.network.state_dict()) == set(network.state_dict())


def test_a_kind_of_bias_that_cannot_be_there_is_refused(data, network):
    gray = dataclasses.replace(data, inputs=data.inputs[:, :1].repeat(1, 3, 1, 1))
    with pytest.raises(CrossbiasError, match=r"images of tiny are gray. Name one with biased"):
        crossbias.fit(RUBi(), gray, network=network, config=SGD)
    with pytest.raises(CrossbiasError, match="there is no network 'nowhere'"):
        crossbias.fit(RUBi(biased="nowhere"), data, network=network, config=SGD)
    with pytest.raises(CrossbiasError, match="biased names no network"):
        crossbias.fit(RUBi(biased=""), data, network=network, config=SGD)


def test_a_biased_network_that_sees_nothing_is_named(data, network):
    config = dataclasses.replace(SGD, epochs=1, lr=1e-9)
    health = crossbias.fit(RUBi(), data, network=network, config=config).health
    (found,) = [symptom for symptom in health if "biased network" in symptom.name]
    assert found.name == "biased network sees nothing"
    assert "masking by it changes nothing" in found.sentence


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mask_takes_from_aligned_samples_and_gives_to_conflicting_ones(seed):
    """What the paper says of the loss, on vectors whose first number shows the bias."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(800) % 4
    bias = torch.where(torch.rand(800, generator=generator) < 0.9, target, (target + 1) % 4)
    shown = torch.stack([bias.float(), (target // 2).float(), (target % 2).float()], 1)
    inputs = shown + 0.1 * torch.randn(800, 3, generator=generator)
    data = BiasedDataset(
        inputs=inputs, targets=target, attributes={"bias": bias}, bias="bias", name="vectors"
    )
    config = TrainConfig(epochs=5, batch_size=64, lr=0.01, device="cpu", seed=seed)
    method = RUBi(biased="mlp-first")
    network = crossbias.fit(method, data, network="mlp", config=config).network
    with torch.no_grad():
        logits, features = network(inputs).logits, method.biased_network(inputs).features
        masked = logits * method.head(features).sigmoid()
        plain, hidden = (
            F.cross_entropy(each, target, reduction="none") for each in (logits, masked)
        )
    without, under = (each[bias != target].sum() / each.sum() for each in (plain, hidden))
    assert under > without + 0.1  # the share of the 10% conflicting samples in the loss


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_right_on_more_conflicting_samples_than_plain_training(seed):
    """The biased network sees the bias and nothing else; a mask that is not trained does not help.

    Three seeds have 18 to 21 points more with the trained mask, and 3 to 7 with the fixed one.
    """
    train, test = (
        plain_bias_of_four(1600, 0.95, seed),
        plain_bias_of_four(2000, 0.25, seed + 100),
    )
    config = TrainConfig(epochs=10, batch_size=64, lr=0.01, device="cpu", seed=seed)
    plain, masked, fixed = (
        crossbias.fit(method, train, network="mlp", config=config).evaluate(test)["test"]
        for method in (
            ERM(),
            RUBi(biased="mlp-first"),
            RUBi(biased="mlp-first", train_head=False),
        )
    )
    assert masked.conflicting.value > plain.conflicting.value + 0.1
    assert masked.aligned.value > 0.8
    assert fixed.conflicting.value < masked.conflicting.value - 0.05
