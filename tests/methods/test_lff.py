"""LfF: each step is the paper's written out, with and without the ensemble."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from crossbias import Network, TrainConfig, load
from crossbias.methods import ERM, IE, LfF
from crossbias.methods.bias_ensemble import Division
from crossbias.methods.erm import BiasedERM
from crossbias.methods.ie.guided_training import GuidedTraining
from crossbias.methods.lff import FailureTraining
from crossbias.testing import contract
from crossbias.train.run import Run

OTHER_VALUES = {
    "q": 0.1,
    "released_gce": True,
    "alpha_loss": 0.9,
    "ensemble": True,
    "members": 1,
    "ensemble_length": 30,
    "confidence": 0.3,
    "uniform": 0.5,
}
TOGETHER = {
    "members": {"ensemble": True, "ensemble_length": 10, "confidence": 0.3},
    "ensemble_length": {"ensemble": True, "confidence": 0.3},
    "confidence": {"ensemble": True, "ensemble_length": 10},
}


@pytest.mark.parametrize(
    "rule", contract(LfF, other_values=OTHER_VALUES, together=TOGETHER), ids=str
)
def test_contract(rule):
    rule.check()


SGD = TrainConfig(steps=4, batch_size=24, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)


def smooth_network() -> Network:
    """Without batch statistics or dropout, so that a step can be written out."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Network(nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()), nn.Linear(5, 3))


def prepared(method: LfF, data, division: Division | None = None) -> FailureTraining:
    training = FailureTraining(options=method, division=division)
    training.setup(Run(data, network=smooth_network(), config=SGD))
    return training


def batch_of(training: FailureTraining | GuidedTraining, rows: Tensor):
    return next(training.run.loader(training.run.data).batches([rows]))


def moved(network: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    return {
        name: parameter.detach() - 0.1 * gradient
        for (name, parameter), gradient in zip(network.named_parameters(), gradients, strict=True)
    }


class SlowTwin:
    """Algorithm 1 of LfF and the code of BiasEnsemble, sample by sample in Python."""

    def __init__(self, data, networks: list[nn.Module], q: float, old: float, aligned=None) -> None:
        self.data, self.networks, self.q, self.old = data, networks, q, old
        self.aligned = aligned
        self.averages: list[dict[int, float]] = [{}, {}]  # of f_d and f_b, by row

    def relative(self, table: dict[int, float], row: int) -> float:
        label = int(self.data.targets[row])
        own = [value for i, value in table.items() if int(self.data.targets[i]) == label]
        return table[row] / max(own)

    def step(self, rows: list[int]) -> None:
        losses: list[list[Tensor]] = []
        for network, table in zip(self.networks, self.averages, strict=True):
            each = []
            for row in rows:
                image = (self.data.inputs[row][None].float() / 255 - 0.5) / 0.5
                logits = network(image).logits
                each.append(F.cross_entropy(logits, self.data.targets[row][None]))
                new = float(each[-1].detach())
                table[row] = self.old * table[row] + (1 - self.old) * new if row in table else new
            losses.append(each)
        debiased = []
        for each, row in zip(losses[0], rows, strict=True):
            own, biased = (self.relative(table, row) for table in self.averages)
            debiased.append(biased / (biased + own) * each)
        if self.aligned is None:
            biased_each = [(1 - torch.exp(-each) ** self.q) / self.q for each in losses[1]]
        else:
            chosen = zip(losses[1], rows, strict=True)
            biased_each = [each for each, row in chosen if self.aligned[row]]
        for network, terms in zip(self.networks, (debiased, biased_each), strict=True):
            network.load_state_dict(moved(network, torch.stack(terms).mean()))


def test_members_of_the_ensemble_are_trained_with_generalized_cross_entropy(data, monkeypatch):
    """With its whole gradient, also where f_b has that of the release."""
    trained, original = [], Run.train

    def train(self, method, **options):
        trained.append(method)
        return original(self, method, **options)

    monkeypatch.setattr(Run, "train", train)
    method = LfF(q=0.3, released_gce=True, ensemble=True, members=2, ensemble_length=2)
    crossbias.fit(method, data, network=smooth_network(), config=SGD)
    assert trained[:2] == [BiasedERM(q=0.3)] * 2


@pytest.mark.parametrize("ensemble", [False, True])
def test_steps_are_the_papers_written_out(ensemble, data):
    """Four batches, of which the second meets no row of the first: unseen rows count as 0."""
    aligned = torch.arange(48) % 3 != 0
    division = Division(aligned, ~aligned) if ensemble else None
    training = prepared(LfF(q=0.5, alpha_loss=0.4, ensemble=ensemble), data, division)
    networks = [
        copy.deepcopy(network.module) for network in (training.network, training.biased_network)
    ]
    twin = SlowTwin(data, networks, q=0.5, old=0.6, aligned=aligned if ensemble else None)
    for rows in (range(12), range(12, 30), range(6, 24), range(48)):
        training.step(batch_of(training, torch.tensor(list(rows))))
        twin.step(list(rows))
    built = (training.network, training.biased_network)
    for network, expected in zip(built, networks, strict=True):
        for key, value in expected.state_dict().items():
            found = network.module.state_dict()[key]
            torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-6, msg=key)


def test_the_biased_network_can_have_the_gradient_of_the_release(data):
    """Its loss is q p^q CE, with p^q a constant: with SGD a rate of q times ours."""
    training = prepared(LfF(q=0.5, released_gce=True), data)
    network = copy.deepcopy(training.biased_network.module)
    batch = batch_of(training, torch.arange(24))
    logits = network(batch.inputs).logits
    p = logits.softmax(1)[torch.arange(24), batch.target].detach()
    each = F.cross_entropy(logits, batch.target, reduction="none")
    expected = moved(network, (0.5 * p**0.5 * each).mean())
    training.step(batch)
    for key, value in expected.items():
        found = training.biased_network.module.state_dict()[key]
        torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-7, msg=key)


def test_a_row_that_a_batch_has_twice_counts_once(data):
    """As draws with replacement have; one of its two losses is taken, with its usual weight."""
    table = prepared(LfF(alpha_loss=0.5), data).losses
    table.update(torch.tensor([7, 8]), torch.tensor([2.0, 3.0]))
    table.update(torch.tensor([7, 7]), torch.tensor([4.0, 8.0]))
    assert float(table.values[7]) in (3.0, 5.0)
    assert float(table.values[8]) == 3.0
    assert int((table.values >= 0).sum()) == 2


def test_no_gradient_flows_through_the_weight(data):
    training = prepared(LfF(), data)
    batch = batch_of(training, torch.arange(24))
    each = F.cross_entropy(training.network(batch.inputs).logits, batch.target, reduction="none")
    biased = torch.rand(24)
    assert not training._difficulty(batch, each, biased).requires_grad


def test_a_batch_without_aligned_samples_leaves_the_biased_network_alone(data):
    """Where the release has a mean over nothing, which is not a number."""
    nobody = Division(torch.zeros(48).bool(), torch.ones(48).bool())
    training = prepared(LfF(ensemble=True), data, nobody)
    before = copy.deepcopy(training.biased_network.state_dict())
    losses = training.step(batch_of(training, torch.arange(24)))
    assert float(losses["biased"].detach()) == 0
    assert losses["loss"].isfinite()
    for key, value in training.biased_network.state_dict().items():
        assert torch.equal(value, before[key])


def test_with_the_ensemble_it_is_ie_before_guidance_starts(data):
    """Weights of both networks after a whole training, bit for bit but for the order of sums."""
    config = dataclasses.replace(SGD, steps=6)
    shared = {"members": 2, "ensemble_length": 5, "confidence": 0.3}
    networks = [
        crossbias.fit(method, data, network=smooth_network(), config=config).network
        for method in (LfF(ensemble=True, **shared), IE(guidance_start=100, uniform=0.0, **shared))
    ]
    for key, value in networks[0].state_dict().items():
        torch.testing.assert_close(networks[1].state_dict()[key], value, rtol=1e-5, atol=1e-7)


def test_a_biased_network_that_learns_nothing_is_named(data):
    config = dataclasses.replace(SGD, lr=1e-12)
    health = crossbias.fit(LfF(), data, network=smooth_network(), config=config).health
    (found,) = [symptom for symptom in health if "biased network" in symptom.name]
    assert found.name == "biased network learned nothing"
    assert "with train.epochs, or raise train.lr" in found.remedy


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_lff_is_right_on_more_conflicting_images_than_plain_training(seed, ensemble):
    options = {"size": 1500, "rho": 0.95, "image_size": 20, "test_size": 500}
    train, test = (load("glyphs", split, seed=seed, **options) for split in ("train", "test"))
    network = crossbias.Recipe("small-convnet", {"dropout": 0.0})
    config = TrainConfig(epochs=15, batch_size=64, lr=0.003, device="cpu", seed=seed)
    method = LfF(ensemble=ensemble, members=3, ensemble_length=60)
    plain, weighted = (
        crossbias.fit(each, train, network=network, config=config).evaluate(test)["test"]
        for each in (ERM(), method)
    )
    assert weighted.conflicting.value > plain.conflicting.value + 0.1
