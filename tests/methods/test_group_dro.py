"""GroupDRO: each step is the paper's written out, over the groups that have samples."""

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM, GroupDRO
from crossbias.methods.group_dro import group_symptoms
from crossbias.testing import contract, tiny_data
from crossbias.train.run import Run
from crossbias.types import UNKNOWN

from .seeds import SEEDS
from .shortcuts import shortcut_data

OTHER_VALUES = {"step_size": 0.5, "adjustment": 3.0}


@pytest.mark.parametrize("rule", contract(GroupDRO, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


SGD = TrainConfig(steps=4, batch_size=24, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)


def smooth_network() -> Network:
    """Without batch statistics or dropout, so that a step can be written out."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Network(nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()), nn.Linear(5, 3))


def with_holes(data: BiasedDataset) -> BiasedDataset:
    """Two samples have no bias label, and nine (target, bias) pairs are not all there."""
    biases = data.biases.clone()
    biases[[0, 3]] = UNKNOWN
    biases[data.targets == 2] = 2
    return dataclasses.replace(data, attributes={"color": biases})


def prepared(method: GroupDRO, data: BiasedDataset) -> GroupDRO:
    method.setup(Run(data, network=smooth_network(), config=SGD))
    return method


def batch_of(method: GroupDRO, rows: Tensor):
    return next(method.run.loader(method.run.data).batches([rows]))


class SlowTwin:
    """Algorithm 1 with the adjustment of section 3.3, group by group in Python."""

    def __init__(self, data: BiasedDataset, network: nn.Module, eta: float, c: float) -> None:
        self.data, self.network, self.eta, self.c = data, network, eta, c
        pairs = [self.pair(row) for row in range(len(data))]
        self.sizes = {pair: pairs.count(pair) for pair in pairs}
        self.q = {pair: 1 / len(self.sizes) for pair in self.sizes}

    def pair(self, row: int) -> tuple[int, int]:
        return int(self.data.targets[row]), int(self.data.biases[row])

    def step(self, rows: list[int]) -> float:
        losses: dict[tuple[int, int], list[Tensor]] = {pair: [] for pair in self.q}
        for row in rows:
            image = (self.data.inputs[row][None].float() / 255 - 0.5) / 0.5
            each = F.cross_entropy(self.network(image).logits, self.data.targets[row][None])
            losses[self.pair(row)].append(each)
        means = {pair: sum(own) / len(own) for pair, own in losses.items() if own}
        for pair in self.q:
            own = float(means[pair].detach()) if pair in means else 0.0
            raised = own + self.c / math.sqrt(self.sizes[pair])
            self.q[pair] *= math.exp(self.eta * raised)
        total = sum(self.q.values())
        self.q = {pair: weight / total for pair, weight in self.q.items()}
        loss = sum(self.q[pair] * mean for pair, mean in means.items())
        parameters = list(self.network.parameters())
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters), strict=True
        ):
            parameter.data -= 0.1 * gradient
        return float(loss.detach())


@pytest.mark.parametrize("adjustment", [0.0, 2.0])
def test_steps_are_the_papers_written_out(adjustment, data):
    """The first batch has one class only: the groups of the others are absent."""
    data = with_holes(data)
    method = prepared(GroupDRO(step_size=0.8, adjustment=adjustment), data)
    twin = SlowTwin(data, copy.deepcopy(method.network.module), eta=0.8, c=adjustment)
    for rows in (range(0, 48, 3), range(12), range(30, 48), range(48)):
        losses = method.step(batch_of(method, torch.tensor(list(rows))))
        assert float(losses["loss"].detach()) == pytest.approx(twin.step(list(rows)), rel=1e-4)
    assert method.log_weights.exp().tolist() == pytest.approx(
        [twin.q[pair] for pair in sorted(twin.q)], rel=1e-4
    )
    for key, value in twin.network.state_dict().items():
        found = method.network.module.state_dict()[key]
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-6, msg=key)


def test_weights_that_run_away_stay_finite_and_can_come_back(data):
    """A weight that rounds to 0 is kept as a logarithm."""
    method = prepared(GroupDRO(step_size=1e3, adjustment=5.0), data)
    for _ in range(20):
        losses = method.step(batch_of(method, torch.arange(48)))
        assert all(value.isfinite() for value in losses.values())
    assert method.log_weights.isfinite().all()
    assert method.log_weights.exp().sum().item() == pytest.approx(1, rel=1e-5)
    assert method.log_weights.min() < -200


def test_only_groups_with_samples_have_a_weight(data):
    holes = with_holes(data)
    pairs = set(zip(holes.targets.tolist(), holes.biases.tolist(), strict=True))
    method = prepared(GroupDRO(), holes)
    assert {pair for pair in pairs if pair[0] == 2} == {(2, 2)}
    assert len(method.log_weights) == len(pairs) < 9 + 1
    assert method.log_weights.exp().sum().item() == pytest.approx(1)


def test_with_one_group_it_is_plain_training(data):
    one = data.subset((data.targets == 1) & (data.biases == 1))
    method = prepared(GroupDRO(step_size=3.0, adjustment=2.0), one)
    losses = method.loss(batch_of(method, torch.arange(len(one))))
    torch.testing.assert_close(losses["loss"], losses["task"])
    assert losses["largest_weight"].item() == 1


def test_without_speed_all_groups_count_the_same(data):
    method = prepared(GroupDRO(step_size=0.0, adjustment=5.0), data)
    before = method.log_weights.clone()
    method.step(batch_of(method, torch.arange(48)))
    torch.testing.assert_close(method.log_weights, before)


def test_groups_are_drawn_equally_often(monkeypatch):
    data, seen = tiny_data(240), []
    step = GroupDRO.step

    def recorded(method, batch):
        seen.append(batch.group)
        return step(method, batch)

    monkeypatch.setattr(GroupDRO, "step", recorded)
    config = dataclasses.replace(SGD, steps=50)
    crossbias.fit(GroupDRO(), data, network=smooth_network(), config=config)
    counts = torch.cat(seen).bincount(minlength=9)
    assert data.counts().min() < data.counts().max() / 5
    assert counts.min() > 0.7 * counts.float().mean()


def test_another_sampling_in_the_configuration_is_refused(data):
    config = dataclasses.replace(SGD, sampling="class-balanced")
    with pytest.raises(CrossbiasError, match=r"group-dro draws .*, but train\.sampling"):
        crossbias.fit(GroupDRO(), data, network=smooth_network(), config=config)


def test_groups_without_samples_are_named():
    data = tiny_data(240)
    assert not list(group_symptoms(data))
    (found,) = group_symptoms(data.subset((data.targets != 0) | (data.biases == 0)))
    assert found.name == "groups without samples"
    assert found.sentence.startswith("2 of 9 groups have no training sample, such as 0 / 1:")
    red = data.subset(data.biases == 1)
    assert not list(group_symptoms(red)), "a value that nothing has makes no group"


def test_a_group_with_nearly_all_weight_is_named():
    """A group of one sample, which the adjustment raises in every step."""
    data = tiny_data(240)
    lone = (data.targets == 0) & (data.biases == 2)
    keep = ~lone
    keep[lone.nonzero()[0]] = True
    config = dataclasses.replace(SGD, steps=20)
    options = {"network": smooth_network(), "config": config}
    heavy = GroupDRO(step_size=1.0, adjustment=5.0)
    health = crossbias.fit(heavy, data.subset(keep), **options).health
    (found,) = [symptom for symptom in health if "weight" in symptom.name]
    assert found.name == "one group has nearly all weight"
    assert "at the end 0 / 2:" in found.sentence
    usual = crossbias.fit(GroupDRO(), data.subset(keep), **options).health
    assert found.name not in {symptom.name for symptom in usual}


@pytest.mark.parametrize("seed", SEEDS)
def test_conflicting_images_are_right_that_plain_training_gets_wrong(seed):
    train, test = shortcut_data(900, seed=seed), shortcut_data(600, seed=seed, split="test")
    config = TrainConfig(epochs=4, batch_size=32, device="cpu", lr=0.003, seed=seed)
    plain, robust = (
        crossbias.fit(method, train, network="mlp", config=config).evaluate(test)["test"]
        for method in (ERM(), GroupDRO())
    )
    assert plain.aligned.value > 0.95
    assert robust.conflicting.value > plain.conflicting.value + 0.5
    assert robust.worst_group.accuracy.value > plain.worst_group.accuracy.value + 0.5
