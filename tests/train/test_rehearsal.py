"""Every training of a method takes one step on a few samples before a folder is made."""

import copy
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

import crossbias
from crossbias import BiasedDataset, Method, Network, Recipe, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.methods import DFR, ERM, IE, JTT, LNL, PGD, REPAIR, AFLite, Denoised, EnD, ReBias
from crossbias.train.rehearsal import Rehearsal, rehearse
from crossbias.train.run import Run

CONFIG = TrainConfig(steps=2, batch_size=8, device="cpu")
NETWORK = Recipe("small-convnet")


def images(side: int = 16) -> BiasedDataset:
    targets = torch.arange(32) % 2
    inputs = torch.zeros(32, 3, side, side, dtype=torch.uint8)
    inputs[:, 0] += (200 * targets)[:, None, None].to(torch.uint8)
    color = {"color": torch.arange(32) // 2 % 2}
    return BiasedDataset(inputs=inputs, targets=targets, attributes=color, bias="color")


def refused(method: Method, folder, data: BiasedDataset | None = None) -> str:
    with pytest.raises(CrossbiasError) as raised:
        crossbias.fit(
            method, data or images(), network=NETWORK, config=CONFIG, folder=folder, progress=False
        )
    assert not folder.exists()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def flat_for_eight() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4), nn.Linear(4, 2))


def test_a_biased_network_of_rebias_that_does_not_fit_is_named(tmp_path):
    message = refused(ReBias(biased=f"{__name__}:flat_for_eight"), tmp_path / "run")
    assert "biased network 0 of rebias" in message
    assert "inputs of 3x16x16 fail" in message


@dataclass(kw_only=True)
class BrokenLoss(ERM):
    name: ClassVar[str] = ""

    def loss(self, batch):
        return {"loss": (self.network(batch.inputs).features @ torch.ones(3)).mean()}


@dataclass(kw_only=True)
class BrokenLater(Method):
    def fit(self, run):
        first = run.train(ERM(), name="first")
        scores = run.stage("s", lambda: run.score(first, lambda b, o: o.logits[:, 0]), shape=(32,))
        assert len(scores) == 32
        return run.train(BrokenLoss(), network=first)


@pytest.mark.parametrize("method", [BrokenLoss(), BrokenLater()])
def test_a_loss_that_fails_leaves_no_folder_whichever_training_it_is_of(method, tmp_path):
    assert "step of BrokenLoss does not fit the data" in refused(method, tmp_path / "run")


def test_what_a_method_refuses_is_refused_before_the_folder_is_made(tmp_path):
    gray = images()
    gray.inputs[:] = gray.inputs[:, :1]
    assert "gray" in refused(ReBias(), tmp_path / "run", gray)


METHODS = [
    *(ERM(), EnD(), ReBias(), LNL(), PGD(), PGD(score="vmf"), IE(), JTT(), Denoised(), DFR()),
    *(REPAIR(), REPAIR(keep="rank"), AFLite()),
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_rehearsal_refuses_nothing_that_works_and_changes_nothing(method):
    network = Network(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), nn.Linear(4, 2)
    )
    run = Run(images(), network=network, config=CONFIG, validation=images())
    before, state = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    given = repr(method), dict(vars(method))
    rehearse(method, run)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], now) for name, now in network.state_dict().items())
    assert (repr(method), dict(vars(method))) == given
    assert not run.optimizers
    assert not run.health


TRAININGS = {
    "jtt": (JTT(), ["first", "final"]),
    "repair": (REPAIR(), ["probe", "final"]),
    "repair by rank": (REPAIR(keep="rank"), ["probe", "final"]),
    # The filter takes long. The final training is one like the first, with fewer samples.
    "aflite": (AFLite(), ["plain"]),
}


@pytest.mark.parametrize(("method", "names"), TRAININGS.values(), ids=TRAININGS)
def test_a_method_that_chooses_samples_is_rehearsed_to_its_end(method, names, monkeypatch):
    tried, step = [], Rehearsal._try_step
    monkeypatch.setattr(
        Rehearsal,
        "_try_step",
        lambda run, method: tried.append(run.stage_name) or step(run, method),
    )
    rehearse(method, Run(images(), network=NETWORK, config=CONFIG))
    assert tried == names


@pytest.mark.parametrize("kind", [REPAIR, AFLite])
def test_a_file_of_features_that_is_missing_is_refused_at_once(kind, tmp_path):
    message = refused(kind(features="nowhere.npy"), tmp_path / "run")
    assert "'nowhere.npy' cannot be read" in message


def test_a_method_that_was_trained_before_may_be_trained_again():
    """It holds its last run, whose display cannot be copied."""
    method = Denoised(inner=PGD())
    for _ in range(2):
        crossbias.fit(method, images(), network=NETWORK, config=CONFIG)
    assert isinstance(method.inner, PGD)
