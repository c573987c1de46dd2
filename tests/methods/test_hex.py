"""HEX: a step is the release's written out, and answers do not depend on the batch."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import HEX
from crossbias.networks.texture_summary import NormalizedBody, TextureSummary
from crossbias.testing import contract
from crossbias.train.run import Run

from .seeds import SEEDS

OTHER_VALUES = {"levels": 8, "row": 1, "column": 0}
SGD = TrainConfig(batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)


@pytest.mark.parametrize("rule", contract(HEX, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


def test_one_step_is_the_release_written_out(data):
    """With its concatenations, its one classifier for both, and its inverse."""
    start = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    method = HEX()
    method.setup(Run(data, network=start, config=SGD))
    network, texture = (copy.deepcopy(module.module) for module in (method.network, method.texture))
    (batch,) = method.run.loader(data).batches([torch.arange(48)])
    losses = method.step(batch)

    weight = torch.cat([network.head.weight, texture.head.weight], 1)  # of [h, G]
    h, g = (
        F.normalize(each, dim=0)
        for each in (network(batch.inputs).features, texture((batch.inputs + 1) / 2))
    )
    of_both = torch.cat([h, g], 1) @ weight.T + network.head.bias
    of_texture = torch.cat([torch.zeros_like(h), g], 1) @ weight.T + network.head.bias
    inverse = torch.inverse(of_texture.T.double() @ of_texture.double()).float()
    projected = of_both - of_texture @ inverse @ of_texture.T @ of_both
    loss = F.cross_entropy(projected, batch.target)
    assert float(losses["loss"].detach()) == pytest.approx(loss.item(), rel=1e-3)
    loss.backward()
    for ours, expected in ((method.network, network), (method.texture, texture)):
        for found, before in zip(ours.parameters(), expected.parameters(), strict=True):
            moved = before - 0.1 * before.grad
            torch.testing.assert_close(found, moved, rtol=1e-2, atol=1e-4)


def test_answers_are_those_without_texture_and_do_not_depend_on_other_images(data, network):
    config = TrainConfig(epochs=3, batch_size=16, device="cpu", lr=0.01)
    found = crossbias.fit(HEX(), data, network=network, config=config).network
    images = (data.inputs.float() / 255 - 0.5) / 0.5
    with torch.no_grad():
        together, alone = found(images).logits, found(images[:1]).logits
    torch.testing.assert_close(alone, together[:1])
    norms = found.body.norms
    assert (norms > 0).all()
    with torch.no_grad():
        features = found.body.body(images).mean((2, 3))
        expected = F.linear(features / norms, found.head.weight, found.head.bias)
    torch.testing.assert_close(together, expected)


def test_norms_of_training_batches_are_averaged_and_dead_features_left_alone():
    body = NormalizedBody(nn.Identity(), 2)
    body.track(torch.tensor([2.0, 1e-6]))
    assert body.norms.tolist() == pytest.approx([2, 1e-6])
    body.track(torch.tensor([4.0, 3.0]))
    assert body.norms.tolist() == pytest.approx([2.2, 3])
    inputs = torch.tensor([[1.1, 6.0]])
    assert torch.equal(body(inputs)[1], inputs)
    assert body.eval()(inputs)[1][0].tolist() == pytest.approx([0.5, 2])


def test_batches_no_larger_than_the_number_of_classes_are_refused_or_joined(
    data, network, monkeypatch
):
    """The projection would leave nothing of them."""
    small = TrainConfig(epochs=1, batch_size=3, device="cpu")
    with pytest.raises(CrossbiasError, match=r"batch_size 3 is too small: HEX.* at least 4"):
        crossbias.fit(HEX(), data, network=network, config=small)
    sizes, step = [], HEX.step
    monkeypatch.setattr(
        HEX, "step", lambda self, batch: sizes.append(len(batch.target)) or step(self, batch)
    )
    config = dataclasses.replace(small, batch_size=9)  # 48 = 5 * 9 + 3
    crossbias.fit(HEX(), data, network=network, config=config)
    assert sizes[1:] == [9, 9, 9, 9, 12]  # after the rehearsal


def test_a_smaller_rest_of_an_epoch_has_features_of_the_same_size(data, monkeypatch):
    """Norms grow with the samples of a batch; by its own, a rest of 12 had twice the logits."""
    tracked, track = [], NormalizedBody.track
    monkeypatch.setattr(
        NormalizedBody, "track", lambda self, norms: tracked.append(norms) or track(self, norms)
    )
    same = dataclasses.replace(data, inputs=data.inputs[:1].expand_as(data.inputs).clone())
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    config = TrainConfig(epochs=1, batch_size=36, device="cpu", lr=1e-9)  # 48 = 36 + 12
    crossbias.fit(HEX(), same, network=network, config=config)
    whole, rest = tracked[-2:]
    torch.testing.assert_close(rest, whole, rtol=1e-3, atol=1e-6)


def test_vectors_are_refused():
    vectors = BiasedDataset(inputs=torch.zeros(4, 2), targets=torch.arange(4) % 2, name="points")
    with pytest.raises(CrossbiasError, match=r"needs images.* points has inputs \(2,\)"):
        crossbias.fit(HEX(), vectors, network="mlp", config=TrainConfig(device="cpu"))


def test_a_dead_texture_and_a_network_at_chance_are_named(data, network, monkeypatch):
    monkeypatch.setattr(TextureSummary, "forward", _dead)
    config = TrainConfig(epochs=1, batch_size=16, device="cpu", lr=1e-9)
    result = crossbias.fit(HEX(), data, network=network, config=config)
    found = {symptom.name: symptom for symptom in result.health}
    assert "Lower train.lr" in found["texture says nothing"].remedy
    assert "hardly better than chance" in found["nothing is left without texture"].sentence
    assert all(value.isfinite().all() for value in result.network.state_dict().values())


def _dead(self: TextureSummary, images: torch.Tensor) -> torch.Tensor:
    return 0 * self.summary(torch.zeros(len(images), self.levels**2)).relu()


@pytest.mark.parametrize("seed", SEEDS)
def test_it_learns_a_task_that_is_not_a_matter_of_texture(seed):
    """Which half of an image is brighter, answered without the texture."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(600) % 2
    upper = (torch.arange(8) < 4).view(1, 1, 8, 1)
    brighter = torch.where(upper, target.view(-1, 1, 1, 1), 1 - target.view(-1, 1, 1, 1))
    images = torch.randint(0, 100, (600, 1, 8, 8), generator=generator) + 30 * brighter
    halves = [
        BiasedDataset(inputs=images[rows].to(torch.uint8), targets=target[rows], split=split)
        for rows, split in ((slice(400), "train"), (slice(400, 600), "test"))
    ]
    config = TrainConfig(epochs=8, batch_size=50, lr=0.003, device="cpu", seed=seed)
    result = crossbias.fit(HEX(), halves[0], network="mlp", config=config)
    assert result.evaluate(halves[1])["test"].overall.value > 0.9
    assert not result.health
