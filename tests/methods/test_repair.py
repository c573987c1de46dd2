"""REPAIR: the game is the release's written out, and its weights keep what a probe cannot solve."""

import copy
import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.methods import ERM, REPAIR
from crossbias.methods.repair import WeightGame
from crossbias.runs.files import read_json
from crossbias.testing import contract, tiny_data
from crossbias.train.run import Run

from .seeds import SEEDS
from .vectors import plain_bias

SGD = TrainConfig(batch_size=24, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)


@pytest.fixture(scope="session")
def color_file(tmp_path_factory):
    """The mean color of each tiny image."""
    path = tmp_path_factory.mktemp("features") / "color.npy"
    np.save(path, tiny_data().inputs.float().mean((2, 3)).numpy() / 255)
    return str(path)


OTHER_VALUES = {
    "keep": "class-rank",
    "redraw": False,
    "threshold": 0.6,
    "fraction": 0.25,
    "features": "a file",
    "probe_epochs": 1,
    "weight_lr": 50.0,
}
TOGETHER = {
    "threshold": {"keep": "threshold", "weight_lr": 50.0},
    "fraction": {"keep": "rank"},
}


RULES = contract(REPAIR, other_values=OTHER_VALUES, together=TOGETHER)


@pytest.mark.parametrize("rule", [rule for rule in RULES if "features" not in rule.name], ids=str)
def test_contract(rule):
    rule.check()


def test_features_change_the_result(color_file):
    other = OTHER_VALUES | {"features": color_file}
    rules = {rule.name: rule for rule in contract(REPAIR, other_values=other)}
    rules["features changes the result"].check()


def bias_of(scores: list[float], targets: list[int], rows: list[int], losses: list[float]) -> float:
    """The objective of v, sample by sample."""
    weights = [1 / (1 + math.exp(-v)) for v in scores]
    mean = sum(weights) / len(weights)
    solved = chance = 0.0
    for row, loss in zip(rows, losses, strict=True):
        of_class = [w for w, y in zip(weights, targets, strict=True) if y == targets[row]]
        solved += weights[row] / mean * loss
        chance -= weights[row] / mean * math.log(sum(of_class) / sum(weights))
    return 1 - solved / chance


def test_steps_are_the_release_written_out(data):
    """Two batches; the gradient of v by finite differences."""
    start = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    game = WeightGame(weight_lr=10.0, linear=False)
    game.setup(Run(data, network=start, config=SGD))
    probe, scores = copy.deepcopy(game.network.module), [0.0] * 48
    targets = data.targets.tolist()
    for rows in (torch.arange(24), torch.arange(12, 36)):
        batch = next(game.run.loader(data).batches([rows]))
        found = game.step(batch)
        each = F.cross_entropy(probe(batch.inputs).logits, batch.target, reduction="none")
        weights = torch.tensor(scores).sigmoid()
        loss = (weights[rows] / weights.mean() * each).mean()
        assert float(found["loss"].detach()) == pytest.approx(loss.item(), rel=1e-5)
        probe.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in probe.parameters():
                parameter.sub_(0.1 * parameter.grad)
        losses, moved = each.tolist(), []
        assert float(found["bias"]) == pytest.approx(
            bias_of(scores, targets, rows.tolist(), losses), abs=1e-5
        )
        for i, v in enumerate(scores):
            up, down = (
                bias_of([*scores[:i], v + h, *scores[i + 1 :]], targets, rows.tolist(), losses)
                for h in (1e-5, -1e-5)
            )
            moved.append(v - 10 * (up - down) / 2e-5)
        scores = moved
    torch.testing.assert_close(game.scores, torch.tensor(scores), rtol=1e-3, atol=1e-5)
    for ours, expected in zip(game.network.parameters(), probe.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


@pytest.mark.parametrize("stop_after", [2, 4, 8])
def test_a_game_on_features_resumes_to_the_same_bits(
    stop_after, data, network, color_file, tmp_path, monkeypatch
):
    method = REPAIR(features=color_file, keep="class-rank", weight_lr=50.0)
    options = {"network": network, "config": CONFIG, "progress": False}
    whole = crossbias.fit(method, data, **options).network.state_dict()
    taken = itertools.count(1)
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda self, step: next(taken) == stop_after)
        with pytest.raises(Interrupted):
            crossbias.fit(method, data, folder=tmp_path / "run", **options)
    resumed = crossbias.fit(method, data, folder=tmp_path / "run", resume=True, **options)
    for key, value in resumed.network.state_dict().items():
        assert torch.equal(value, whole[key])
    counts = read_json(tmp_path / "run" / "stages" / "kept.json")
    assert counts["all"] == {"before": 48, "kept": 24}
    assert counts["aligned"]["kept"] + counts["conflicting"]["kept"] == 24


def test_features_that_do_not_fit_are_refused(data, network, tmp_path):
    for name, array, message in [
        (
            "few",
            np.zeros((47, 3)),
            r"must be an array of numbers of shape \(48, D\).*got \(47, 3\)",
        ),
        ("flat", np.zeros(48), r"got \(48,\)"),
        ("text", np.full((48, 1), "red"), r"an array of numbers.*got \(48, 1\) of <U3"),
        ("complex", np.ones((48, 2), dtype=complex), r"got \(48, 2\) of complex128"),
        ("none", np.zeros((48, 0)), r"got \(48, 0\)"),
        ("nan", np.full((48, 1), np.nan), "are not all finite"),
        ("large", np.full((48, 1), 1e300), "are not all finite as float32.*too large"),
    ]:
        np.save(tmp_path / f"{name}.npy", array)
        method = REPAIR(features=str(tmp_path / f"{name}.npy"))
        with pytest.raises(CrossbiasError, match=message):
            crossbias.fit(method, data, network=network, config=CONFIG)
    with pytest.raises(CrossbiasError, match=r"'nowhere.npy' cannot be read .* numpy.save wrote"):
        crossbias.fit(REPAIR(features="nowhere.npy"), data, network=network, config=CONFIG)


def test_a_probe_on_features_sees_no_augmentation(data, network, color_file):
    """It would flip colors as if they were images."""
    weights = []
    for config in (CONFIG, dataclasses.replace(CONFIG, augment=("flip",))):
        run = Run(data, network=network, config=config)
        weights.append(REPAIR(features=color_file, probe_epochs=1)._weights(run))
    assert torch.equal(*weights)


def test_a_probe_on_features_is_not_validated(data, validation, network, color_file, tmp_path):
    """The file has no features of validation images."""
    options = {"network": network, "config": CONFIG, "folder": tmp_path / "run"}
    crossbias.fit(REPAIR(features=color_file), data, validation, **options)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    validated = {line["stage"] for line in log if line["validation"]}
    assert validated == {"final"}


def test_features_are_knowledge_of_the_kind_of_bias():
    assert REPAIR().supervision == "none"
    assert REPAIR(features="bias.npy").supervision == "kind of bias"


def test_a_probe_that_solves_nothing_and_weights_that_stay_are_named(data, network, tmp_path):
    np.save(tmp_path / "blind.npy", np.zeros((48, 2)))
    method = REPAIR(features=str(tmp_path / "blind.npy"), weight_lr=1e-6)
    health = crossbias.fit(method, data, network=network, config=CONFIG).health
    found = {symptom.name: symptom for symptom in health}
    assert "there is no bias" in found["probe solves nothing"].sentence
    assert "raise weight_lr" in found["weights hardly moved"].remedy


@pytest.mark.parametrize("keep", ["sample", "threshold", "rank", "class-rank"])
def test_weights_that_run_away_leave_finite_numbers_and_every_class(keep, data, network, tmp_path):
    """All weights are 0 or 1 then; a class that none is left of is kept whole."""
    method = REPAIR(keep=keep, redraw=False, weight_lr=1e6, fraction=0.01, probe_epochs=2)
    options = {"network": network, "config": CONFIG, "folder": tmp_path / "run"}
    result = crossbias.fit(method, data, **options)
    assert all(value.isfinite().all() for value in result.network.state_dict().values())
    kept = torch.load(tmp_path / "run" / "stages" / "kept.pt", weights_only=True)
    assert set(data.targets[kept > 0].tolist()) == {0, 1, 2}


def test_a_class_of_which_little_is_kept_is_named(data, network):
    method = REPAIR(keep="class-rank", fraction=0.1, probe_epochs=1)
    health = crossbias.fit(method, data, network=network, config=CONFIG).health
    (found,) = [each for each in health if each.name == "hardly anything of a class is kept"]
    assert "0 (2), 1 (2), 2 (2)" in found.sentence


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_right_on_more_conflicting_samples_than_plain_training(seed, tmp_path):
    """The probe is told the bias, as in the paper's experiment on colors."""
    train, test = plain_bias(800, 0.95, seed), plain_bias(1000, 0.5, seed + 100)
    np.save(tmp_path / "bias.npy", train.inputs[:, :1].numpy())
    config = TrainConfig(epochs=10, batch_size=64, lr=0.01, device="cpu", seed=seed)
    method = REPAIR(features=str(tmp_path / "bias.npy"), probe_epochs=30, weight_lr=20.0)
    plain, repaired = (
        crossbias.fit(each, train, network="mlp", config=config, folder=tmp_path / each.name)
        for each in (ERM(), method)
    )
    weights = torch.load(tmp_path / "repair" / "stages" / "weights.pt", weights_only=True)
    conflicting = train.targets != train.biases
    assert weights[conflicting].mean() > 2 * weights[~conflicting].mean()
    plain, repaired = (each.evaluate(test)["test"] for each in (plain, repaired))
    assert repaired.conflicting.value > plain.conflicting.value + 0.1
    assert repaired.aligned.value > 0.9


def test_a_subset_has_weights_of_its_own_rows_alone(network, tmp_path):
    data = tiny_data(60)
    part = data.subset(torch.arange(60) % 2 == 0)
    method = REPAIR(probe_epochs=1)
    config = dataclasses.replace(CONFIG, epochs=1)
    crossbias.fit(method, part, network=network, config=config, folder=tmp_path / "run")
    weights = torch.load(tmp_path / "run" / "stages" / "weights.pt", weights_only=True)
    assert weights.shape == (60,)
    assert (weights > 0).tolist() == [True, False] * 30
