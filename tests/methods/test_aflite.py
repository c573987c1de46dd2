"""AFLite: the filter is Algorithm 1, and leaves what features of the bias do not predict."""

import dataclasses
import json

import numpy as np
import pytest
import torch

import crossbias
from crossbias import BiasedDataset, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.functional import predictability
from crossbias.methods import ERM, AFLite
from crossbias.methods.aflite import removed, standardized
from crossbias.runs.files import read_json
from crossbias.testing import contract, tiny_data
from crossbias.train.run import Run

from .seeds import SEEDS
from .vectors import plain_bias

OTHER_VALUES = {
    "classifiers": 3,
    "training_share": 0.2,
    "slice_share": 0.02,
    "threshold": 0.2,
    "target_share": 0.4,
    "features": "a file",
    "feature_epochs": 1,
}
# A threshold is reached where much may be left out.
TOGETHER = {"threshold": {"target_share": 0.1}}
RULES = contract(AFLite, other_values=OTHER_VALUES, together=TOGETHER)
CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


@pytest.mark.parametrize("rule", [rule for rule in RULES if "features" not in rule.name], ids=str)
def test_contract(rule):
    rule.check()


def test_features_change_the_result(tmp_path):
    np.save(tmp_path / "color.npy", tiny_data().inputs.float().mean((2, 3)).numpy())
    other = OTHER_VALUES | {"features": str(tmp_path / "color.npy")}
    rules = {rule.name: rule for rule in contract(AFLite, other_values=other)}
    rules["features changes the result"].check()


def kept_rows(method: AFLite, data: BiasedDataset) -> torch.Tensor:
    run = Run(data, network=crossbias.Recipe("mlp"), config=CONFIG)
    return method._kept(run, method._features(run))


def test_the_filter_is_algorithm_1_written_out(tmp_path):
    """Round by round, with splits drawn from the same seeds."""
    data = plain_bias(200, 0.9, seed=0)
    np.save(tmp_path / "both.npy", data.inputs.numpy())
    method = AFLite(
        features=str(tmp_path / "both.npy"), classifiers=8, training_share=0.4, slice_share=0.1,
        target_share=0.25, threshold=0.9,
    )  # fmt: skip
    run = Run(data, network=crossbias.Recipe("mlp"), config=CONFIG)
    features, left, sizes = standardized(data.inputs), list(range(200)), []
    for number in range(100):
        if len(left) <= 50:
            break
        generator = torch.Generator().manual_seed(run.seed("aflite", number))
        fitted = method._parts(len(left), generator)
        assert (fitted.sum(1) == round(0.4 * len(left))).all()
        score = predictability(features[left], data.targets[left], fitted, classes=2, ridge=1e-3)
        order = torch.randperm(len(left), generator=generator).tolist()
        ranked = sorted(order, key=lambda place, score=score: -score[place])
        gone = {left[place] for place in ranked[: min(20, len(left) - 50)] if score[place] >= 0.9}
        left = [row for row in left if row not in gone]
        sizes.append(len(gone))
        if len(gone) < 20:
            break
    assert sizes[0] == 20
    assert len(sizes) > 2
    assert kept_rows(method, data).nonzero()[:, 0].tolist() == left


def test_only_predictable_samples_are_left_out_and_equal_scores_at_random():
    score, target = torch.tensor([1.0, 1.0, 1.0, 0.8, 0.7, 0.9]), torch.tensor([0, 0, 1, 0, 1, 1])
    chosen = [
        removed(score, target, torch.tensor(order), most=2, threshold=0.75).nonzero()[:, 0].tolist()
        for order in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0])
    ]
    assert chosen == [[0, 1], [1, 2]]
    all_of_them = removed(score, target, torch.arange(6), most=9, threshold=0.75)
    assert all_of_them.tolist() == [True, True, True, False, False, True]  # 3: the last of class 0
    at_threshold = removed(score, target, torch.arange(6), most=9, threshold=0.9)
    assert at_threshold.tolist() == [True, True, True, False, False, True]  # 5 is as high as asked


def test_conflicting_samples_remain_where_features_show_the_bias(tmp_path):
    data = plain_bias(800, 0.95, seed=0)
    np.save(tmp_path / "bias.npy", data.inputs[:, :1].numpy())
    kept = kept_rows(AFLite(features=str(tmp_path / "bias.npy"), target_share=0.1), data) > 0
    assert int(kept.sum()) == 80
    assert kept[data.targets != data.biases].all()


@pytest.mark.parametrize(("given", "steps"), [({}, 12), ({"epoch_size": 20}, 6)])
def test_the_final_training_has_as_many_updates_as_one_on_all(
    given, steps, data, network, tmp_path
):
    """Two epochs of 48 samples, of which 16 are kept; or of the length that is given."""
    config = dataclasses.replace(CONFIG, batch_size=8, **given)
    method, folder = AFLite(threshold=0.0), tmp_path / "run"
    crossbias.fit(method, data, network=network, config=config, folder=folder)
    assert read_json(folder / "stages" / "kept.json")["all"]["kept"] == 16
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert {epoch["stage"]: epoch["step"] for epoch in log} == {"plain": steps, "final": steps}


def test_a_class_is_never_lost(tmp_path):
    """Without noise everything is predictable; the goal is one sample for two classes."""
    data = plain_bias(40, 1.0, seed=0)
    np.save(tmp_path / "answer.npy", data.targets[:, None].numpy())
    method = AFLite(features=str(tmp_path / "answer.npy"), target_share=0.01, slice_share=0.5)
    config = TrainConfig(epochs=1, batch_size=8, device="cpu")
    result = crossbias.fit(method, data, network="mlp", config=config, folder=tmp_path / "run")
    assert read_json(tmp_path / "run" / "stages" / "kept.json")["all"]["kept"] == 2
    (found,) = [each for each in result.health if each.name.startswith("hardly anything")]
    assert "0 (1), 1 (1)" in found.sentence
    assert "target_share" in found.remedy


def test_features_that_predict_nothing_are_named_and_leave_a_plain_training(
    data, network, tmp_path
):
    np.save(tmp_path / "blind.npy", np.zeros((48, 2)))
    method = AFLite(features=str(tmp_path / "blind.npy"))
    result = crossbias.fit(method, data, network=network, config=CONFIG)
    assert "nothing is predictable" in {symptom.name for symptom in result.health}
    plain = crossbias.fit(ERM(), data, network=network, config=CONFIG).network.state_dict()
    for key, value in result.network.state_dict().items():
        assert torch.equal(value, plain[key])


def test_given_features_count_as_knowledge_of_the_kind_of_bias():
    assert AFLite().supervision == "none"
    assert AFLite(features="bias.npy").supervision == "kind of bias"


def test_features_that_do_not_fit_are_refused(data, network, tmp_path):
    np.save(tmp_path / "few.npy", np.zeros((47, 3)))
    method = AFLite(features=str(tmp_path / "few.npy"))
    with pytest.raises(CrossbiasError, match=r"shape \(48, D\), one row for each .* got \(47, 3\)"):
        crossbias.fit(method, data, network=network, config=CONFIG)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_right_on_more_conflicting_samples_than_plain_training(seed, tmp_path):
    train, test = plain_bias(1600, 0.95, seed), plain_bias(1000, 0.5, seed + 100)
    np.save(tmp_path / "bias.npy", train.inputs[:, :1].numpy())
    config = TrainConfig(steps=200, batch_size=64, lr=0.01, device="cpu", seed=seed)
    method = AFLite(features=str(tmp_path / "bias.npy"))
    plain, filtered = (
        crossbias.fit(each, train, network="mlp", config=config).evaluate(test)["test"]
        for each in (ERM(), method)
    )
    assert filtered.conflicting.value > plain.conflicting.value + 0.05
    assert filtered.aligned.value > 0.8
