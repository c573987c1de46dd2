"""DFR: the last layer is trained on group-balanced validation samples, the rest plainly."""

import dataclasses

import pytest
import torch

import crossbias
from crossbias import BiasedDataset, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.functional import sparse_logistic_regression
from crossbias.methods import DFR, ERM
from crossbias.methods.dfr import _balanced, _draws, _halves, _joining, _Samples
from crossbias.runs.files import read_json
from crossbias.testing import contract, tiny_data
from crossbias.train.evaluation import predict

OTHER_VALUES = {"strengths": (0.05,), "draws": 3}
CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)
VALIDATION = tiny_data(90, seed=1, split="validation")
FIRST = torch.tensor([0])
ENOUGH = tiny_data(900, seed=1, split="validation")


def without(data: BiasedDataset, group: int, *, but: int) -> BiasedDataset:
    """All but some samples of a group left out."""
    gone = (data.groups == group).nonzero()[but:, 0]
    return data.subset(~torch.isin(torch.arange(len(data)), gone))


@pytest.mark.parametrize("rule", contract(DFR, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


def test_a_balanced_draw_has_as_many_of_every_group_as_the_smallest_has():
    group = torch.tensor([3] * 40 + [0] * 19 + [5] * 12)
    rows = _balanced(group, torch.Generator().manual_seed(0))
    assert group[rows].bincount().tolist() == [12, 0, 0, 12, 0, 12]
    assert len(set(rows.tolist())) == 36
    assert rows.tolist() != _balanced(group, torch.Generator().manual_seed(1)).tolist()


def test_a_tiny_group_does_not_make_the_others_tiny():
    """Each of the others gives ten, or all it has."""
    group = torch.tensor([3] * 40 + [0] * 9 + [5])
    rows = _balanced(group, torch.Generator().manual_seed(0))
    assert group[rows].bincount().tolist() == [9, 0, 0, 10, 0, 1]


def test_halves_divide_every_group():
    group = torch.tensor([1, 0, 1, 1, 0, 2, 1, 2, 1])
    samples = _Samples(torch.arange(9.0)[:, None], group, group)
    one, other = _halves(samples, torch.Generator().manual_seed(0))
    assert one.group.bincount().tolist() == [1, 3, 1]
    assert other.group.bincount().tolist() == [1, 2, 1]
    together = torch.cat([one.features, other.features]).squeeze(1)
    assert together.sort().values.tolist() == list(range(9))


def test_only_the_last_layer_differs_from_plain_training(data, network, tmp_path):
    """With groups of equal size every draw is all of them: one regression, written out here."""
    keep = torch.cat([(ENOUGH.groups == group).nonzero()[:10, 0] for group in range(9)])
    even = ENOUGH.subset(keep)
    assert (even.counts() == 10).all()
    options = {"network": network, "config": CONFIG}
    plain = crossbias.fit(ERM(), data, even, **options).network
    method = DFR(strengths=(0.7,), draws=2)
    found = crossbias.fit(method, data, even, folder=tmp_path / "run", **options).network
    for key, value in plain.body.state_dict().items():
        assert torch.equal(found.body.state_dict()[key], value)

    def features(split: BiasedDataset) -> torch.Tensor:
        images = (split.inputs.float() / 255 - 0.5) / 0.5
        with torch.no_grad():
            return plain(images).features.double()

    mean, deviation = features(data).mean(0), features(data).std(0, correction=0)
    own = (features(even) - mean) / deviation
    weight, bias = sparse_logistic_regression(own, even.targets, classes=3, strength=0.7)
    expected = (own @ weight.T + bias).softmax(1).float()
    torch.testing.assert_close(predict(found, even).probabilities, expected, rtol=1e-3, atol=1e-4)
    assert read_json(tmp_path / "run" / "stages" / "head.json")["strength"] == 0.7


def test_the_strength_with_the_best_worst_group_is_chosen(data, network, tmp_path):
    """A penalty that leaves no weight answers one class: its worst group is never right."""
    method = DFR(strengths=(1e-6, 1.0))
    config = dataclasses.replace(CONFIG, epochs=8)
    options = {"network": network, "config": config, "folder": tmp_path / "run"}
    crossbias.fit(method, tiny_data(240), tiny_data(480, seed=1, split="validation"), **options)
    assert read_json(tmp_path / "run" / "stages" / "head.json")["strength"] == 1.0


def test_the_worst_group_is_better_than_with_plain_training(network):
    """The features show class and bias; plain training weighs them by how often they agree."""
    train, test = tiny_data(600), tiny_data(900, seed=3, split="test")
    rare = (train.targets == train.biases) | (torch.arange(600) % 12 == 0)
    config = TrainConfig(epochs=4, batch_size=32, device="cpu", lr=0.01)
    worst = {}
    for method in (ERM(), DFR()):
        options = {"network": network, "config": config}
        validation = tiny_data(450, seed=1, split="validation")
        result = crossbias.fit(method, train.subset(rare), validation, **options)
        worst[method.name] = result.evaluate(test)["test"].worst_group.accuracy.value
    assert worst["dfr"] > worst["erm"] + 0.1


def test_data_it_cannot_work_with_is_refused_before_training(data, network, tmp_path):
    options = {"network": network, "config": CONFIG, "folder": tmp_path / "run"}
    for validation in (None, VALIDATION.with_bias(None)):
        with pytest.raises(CrossbiasError, match=r"needs validation data with bias labels"):
            crossbias.fit(DFR(), data, validation, **options)
    named = dataclasses.replace(VALIDATION, values={"color": ("a", "b", "c")})
    with pytest.raises(CrossbiasError, match=r"values a, b, c, that of the training data color"):
        crossbias.fit(DFR(), data, named, **options)
    with pytest.raises(CrossbiasError, match=r"names no value; name one"):
        crossbias.fit(DFR(strengths=()), data, VALIDATION, **options)
    assert not (tmp_path / "run").exists()


def test_training_samples_join_where_validation_lacks_groups(data, network, tmp_path):
    """One group is not there and one has nine samples: all groups get their training samples."""
    assert int(ENOUGH.counts().min()) >= 10
    assert not _joining(data, ENOUGH).any()
    assert not _joining(data, without(ENOUGH, 1, but=10)).any()
    few = without(without(ENOUGH, 1, but=9), 2, but=0)
    assert _joining(data, few).all()
    unknown = dataclasses.replace(data, attributes={"color": data.biases.index_fill(0, FIRST, -1)})
    assert _joining(unknown, few).tolist() == [False] + [True] * 47
    options = {"network": network, "config": CONFIG, "folder": tmp_path / "run"}
    result = crossbias.fit(DFR(strengths=(0.7,), draws=2), data, few, **options)
    (found,) = [symptom for symptom in result.health if symptom.name.startswith("groups missing")]
    assert "in the validation data: 0 / 2 (0), 0 / 1 (9). So the last layer" in found.sentence
    absent = data.subset(data.groups != 2)  # nowhere: it cannot be balanced, and is no reason
    assert not _joining(absent, without(ENOUGH, 2, but=0)).any()


def test_a_last_layer_that_is_fitted_to_few_samples_is_named(data, network):
    """A group with two samples of validation and one of training."""

    def named(train: BiasedDataset, validation: BiasedDataset) -> list[str]:
        result = crossbias.fit(DFR(draws=2), train, validation, network=network, config=CONFIG)
        return [s.sentence for s in result.health if s.name == "last layer fitted to few samples"]

    (sentence,) = named(without(data, 4, but=1), without(ENOUGH, 4, but=2))
    assert "together: 1 / 1 (3). Each draw has all of these and 10 of every other" in sentence
    assert not named(data, ENOUGH)


@pytest.mark.parametrize(("validation", "most"), [(ENOUGH, 29), (without(ENOUGH, 1, but=9), 11)])
def test_draws_that_change_the_shares_of_classes_are_named(data, network, validation, most):
    """The last layer sees every group as often as its smallest, here a third of a class."""
    rare = without(without(without(data, 3, but=1), 4, but=1), 5, but=1)
    drawn = _draws(rare, validation)[rare.index]
    for group in range(9):
        rows = rare.groups == group
        assert not rows.any() or float(drawn[rows].sum()) == pytest.approx(most)
    for train, named in ((rare, True), (data, False)):
        result = crossbias.fit(DFR(draws=1), train, validation, network=network, config=CONFIG)
        found = [symptom.name for symptom in result.health]
        assert ("draws change the class shares" in found) == named


def test_of_many_groups_the_smallest_are_named(data, network):
    """All nine groups of the validation data are small."""
    few = tiny_data(20, seed=1, split="validation")
    result = crossbias.fit(DFR(draws=2), data, few, network=network, config=CONFIG)
    (found,) = [symptom for symptom in result.health if symptom.name.startswith("groups missing")]
    assert found.sentence.count(" / ") == 6
    assert "), 3 more. So the last layer" in found.sentence
