"""DisEnt: each step is the paper's written out, with and without the ensemble."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from crossbias import Network, TrainConfig, load
from crossbias.methods import ERM, Denoised, DisEnt
from crossbias.methods.bias_ensemble import Division
from crossbias.methods.disent import SwapTraining
from crossbias.testing import contract
from crossbias.train.run import Run

from .seeds import SEEDS
from .shortcuts import shortcut_data

OTHER_VALUES = {
    "q": 0.1,
    "released_gce": True,
    "alpha_loss": 0.9,
    "ensemble": True,
    "members": 1,
    "ensemble_length": 30,
    "confidence": 0.3,
    "uniform": 0.5,
    "lambda_swap": 0.1,
    "lambda_dis": 2.0,
    "lambda_swap_b": 2.0,
    "swap_start": 4,
}
TOGETHER = {
    "members": {"ensemble": True, "ensemble_length": 10, "confidence": 0.3},
    "ensemble_length": {"ensemble": True, "members": 1, "confidence": 0.3},
    "confidence": {"ensemble": True, "ensemble_length": 10},
}


@pytest.mark.parametrize(
    "rule", contract(DisEnt, other_values=OTHER_VALUES, together=TOGETHER), ids=str
)
def test_contract(rule):
    rule.check()


SGD = TrainConfig(steps=4, batch_size=24, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)
LAMBDAS = {"lambda_swap": 0.5, "lambda_dis": 3.0, "lambda_swap_b": 2.0}


def smooth_network() -> Network:
    """Without batch statistics or dropout, so that a step can be written out."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Network(nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()), nn.Linear(5, 3))


def prepared(method: DisEnt, data, division: Division | None = None) -> SwapTraining:
    training = SwapTraining(options=method, division=division)
    training.setup(Run(data, network=smooth_network(), config=SGD))
    return training


def batch_of(training: SwapTraining, rows: Tensor):
    return next(training.run.loader(training.run.data).batches([rows]))


class SlowTwin:
    """Eqs. 1 to 4 sample by sample; each loss is derived by the parameters that it trains."""

    def __init__(self, data, network: Network, q: float, old: float, aligned=None) -> None:
        self.data, self.q, self.old, self.aligned = data, q, old, aligned
        body = network.body
        self.encoders, self.heads = (body.intrinsic, body.biased), (network.head, body.biased_head)
        self.averages: tuple[dict[int, float], dict[int, float]] = ({}, {})

    def relative(self, table: dict[int, float], row: int) -> float:
        label = int(self.data.targets[row])
        own = [value for i, value in table.items() if int(self.data.targets[i]) == label]
        return table[row] / max(own)

    def entropy(self, head: int, first: Tensor, second: Tensor, row: int) -> Tensor:
        logits = self.heads[head](torch.cat([first, second]))
        return F.cross_entropy(logits[None], self.data.targets[row][None])

    def biased(self, losses: list[Tensor], rows: list[int]) -> Tensor:
        if self.aligned is None:
            return torch.stack(
                [(1 - torch.exp(-each) ** self.q) / self.q for each in losses]
            ).mean()
        chosen = [each for each, row in zip(losses, rows, strict=True) if self.aligned[row]]
        return torch.stack(chosen).mean()

    def weights(self, losses: list[list[Tensor]], rows: list[int]) -> list[float]:
        for table, each in zip(self.averages, losses, strict=True):
            for row, new in zip(rows, (float(loss.detach()) for loss in each), strict=True):
                table[row] = self.old * table[row] + (1 - self.old) * new if row in table else new
        both = [[self.relative(table, row) for row in rows] for table in self.averages]
        return [biased / (biased + own) for own, biased in zip(*both, strict=True)]

    def step(self, rows: list[int], order: list[int] | None) -> None:
        images = [(self.data.inputs[row][None].float() / 255 - 0.5) / 0.5 for row in rows]
        own, other = (
            [encoder(image)[0].mean((1, 2)) for image in images] for encoder in self.encoders
        )
        places = range(len(rows))
        each = [[self.entropy(head, own[i], other[i], rows[i]) for i in places] for head in (0, 1)]
        weights = self.weights(each, rows)
        main = sum(weights[i] * each[0][i] for i in places) / len(rows)
        biased = LAMBDAS["lambda_dis"] * self.biased(each[1], rows)
        if order is not None:
            swapped = [self.entropy(0, own[i], other[order[i]], rows[i]) for i in places]
            swapped_biased = [
                self.entropy(1, own[i], other[order[i]], rows[order[i]]) for i in places
            ]
            partners = [rows[order[i]] for i in places]
            mixed = sum(weights[i] * swapped[i] for i in places) / len(rows)
            main = main + LAMBDAS["lambda_swap"] * mixed
            factor = LAMBDAS["lambda_swap"] * LAMBDAS["lambda_swap_b"]
            biased = biased + factor * self.biased(swapped_biased, partners)
        moved = []
        for loss, encoder, head in zip((main, biased), self.encoders, self.heads, strict=True):
            parameters = [*encoder.parameters(), *head.parameters()]
            gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
            moved += zip(parameters, gradients, strict=True)
        for parameter, gradient in moved:
            parameter.data -= 0.1 * gradient


@pytest.mark.parametrize("ensemble", [False, True])
def test_steps_are_the_papers_written_out(ensemble, data):
    """Two steps before features are swapped, and two after."""
    aligned = torch.arange(48) % 3 != 0
    division = Division(aligned, ~aligned) if ensemble else None
    method = DisEnt(q=0.5, alpha_loss=0.4, ensemble=ensemble, swap_start=2, **LAMBDAS)
    training = prepared(method, data, division)
    network = copy.deepcopy(training.network.module)
    twin = SlowTwin(data, network, q=0.5, old=0.6, aligned=aligned if ensemble else None)
    batches = (range(12), range(12, 30), range(6, 24), range(48))
    for number, rows in enumerate(batches):
        order = training._order(len(rows), number).tolist() if number >= 2 else None
        losses = training.step(batch_of(training, torch.tensor(list(rows))))
        twin.step(list(rows), order)
        assert (float(losses["swap"].detach()) > 0) == (number >= 2)
    for key, value in network.state_dict().items():
        found = training.network.module.state_dict()[key]
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-6, msg=key)


def test_each_head_trains_its_own_encoder_only(data):
    training = prepared(DisEnt(), data)
    batch, body = batch_of(training, torch.arange(24)), training.network.module.body
    own, other = training.network(batch.inputs).features.chunk(2, 1)
    order = training._order(24, 0)
    plain = (logits.sum() for logits in training._logits(own, other))
    swapped = training._swapped(batch, own, other, torch.ones(24), order)
    for terms in (tuple(plain), swapped):
        for term, trained, fixed in zip(
            terms, (body.intrinsic, body.biased), (body.biased, body.intrinsic), strict=True
        ):
            reached = torch.autograd.grad(
                term, [trained[0].weight, fixed[0].weight], retain_graph=True
            )
            assert reached[0].abs().sum() > 0
            assert not reached[1].any(), "exactly zero"


def test_features_are_swapped_in_another_order_in_each_step(data):
    training = prepared(DisEnt(), data)
    first, second = training._order(24, 0), training._order(24, 1)
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(24))
    assert not torch.equal(first, second)
    assert torch.equal(first, training._order(24, 0))


def test_a_batch_without_aligned_samples_leaves_the_biased_half_alone(data):
    nobody = Division(torch.zeros(48).bool(), torch.ones(48).bool())
    training = prepared(DisEnt(ensemble=True, swap_start=0), data, nobody)
    before = copy.deepcopy(training.network.module.state_dict())
    losses = training.step(batch_of(training, torch.arange(24)))
    assert losses["biased"].item() == losses["swap_biased"].item() == 0
    assert losses["loss"].isfinite()
    for key, value in training.network.module.state_dict().items():
        stays = key.startswith(("body.biased.", "body.biased_head."))
        assert torch.equal(value, before[key]) == stays, key


def test_a_biased_half_that_learns_nothing_is_named(data):
    config = dataclasses.replace(SGD, lr=1e-12)
    health = crossbias.fit(DisEnt(), data, network=smooth_network(), config=config).health
    assert "biased network learned nothing" in {symptom.name for symptom in health}


def test_inside_another_method_it_is_rebuilt_from_the_folder(data, tmp_path):
    folder, network = tmp_path / "run", crossbias.Recipe("convnet", {"kernel": 1})
    options = {"network": network, "config": SGD, "folder": folder}
    trained = crossbias.fit(Denoised(inner=DisEnt()), data, **options).network
    images = torch.rand(5, 3, 6, 6)
    assert torch.equal(crossbias.load_run(folder).network(images).logits, trained(images).logits)


@pytest.mark.parametrize("ensemble", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", SEEDS)
def test_more_conflicting_images_are_right_than_with_plain_training(seed, ensemble):
    options = {"seed": seed, "contrast": 40}
    train, test = shortcut_data(900, **options), shortcut_data(600, split="test", **options)
    config = TrainConfig(epochs=10, batch_size=32, device="cpu", lr=0.0005, seed=seed)
    method = DisEnt(ensemble=ensemble, members=3, ensemble_length=60, confidence=0.9)
    plain, apart = (
        crossbias.fit(each, train, network="mlp", config=config).evaluate(test)["test"]
        for each in (ERM(), method)
    )
    assert apart.aligned.value > 0.95
    assert apart.conflicting.value > plain.conflicting.value + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_more_conflicting_glyphs_are_right_than_with_plain_training(seed):
    options = {"size": 1500, "rho": 0.95, "image_size": 20, "test_size": 500}
    train, test = (load("glyphs", split, seed=seed, **options) for split in ("train", "test"))
    network = crossbias.Recipe("small-convnet", {"dropout": 0.0})
    config = TrainConfig(epochs=15, batch_size=64, lr=0.003, device="cpu", seed=seed)
    plain, apart = (
        crossbias.fit(each, train, network=network, config=config).evaluate(test)["test"]
        for each in (ERM(), DisEnt())
    )
    assert apart.conflicting.value > plain.conflicting.value + 0.1
