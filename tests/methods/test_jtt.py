"""JTT: which samples are errors, how often they count, and what is trained on them."""

import dataclasses
import json

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.methods import ERM, JTT
from crossbias.methods.jtt import balancing_copies, error_symptoms
from crossbias.testing import contract, tiny_data, tiny_network
from crossbias.train.run import Run

from .seeds import SEEDS
from .shortcuts import shortcut_data

OTHER_VALUES = {"first_epochs": 1, "copies": 3}
TOGETHER = {"first_epochs": {"copies": 3}}


@pytest.mark.parametrize(
    "rule", contract(JTT, other_values=OTHER_VALUES, together=TOGETHER), ids=str
)
def test_contract(rule):
    rule.check()


CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


def always(monkeypatch, wrong: torch.Tensor) -> None:
    """The first network gets these samples wrong, whatever it has learned."""
    monkeypatch.setattr(Run, "score", lambda self, network, function: wrong.float())


def trained(method, data, **changes) -> crossbias.Result:
    config = dataclasses.replace(CONFIG, **changes)
    return crossbias.fit(method, data, network=tiny_network(), config=config)


def test_errors_of_the_first_network_count_once_more_than_there_are_copies(data, monkeypatch):
    """Asked in evaluation mode and without the augmentation of the training."""
    calls: list[dict] = []
    original = Run.train

    def train(self, method, **options):
        network = original(self, method, **options)
        calls.append({"method": method, "network": network, "options": options})
        return network

    monkeypatch.setattr(Run, "train", train)
    part = data.subset(torch.arange(48) != 5)
    trained(JTT(first_epochs=1, copies=4), part, augment=("flip",), epochs=1)
    first, final = calls
    assert first["method"] == final["method"] == ERM()
    assert first["options"]["epochs"] == 1
    assert final["options"].get("network") is None, "the second network starts anew"
    images = (data.inputs.float() / 255 - 0.5) / 0.5
    wrong = first["network"](images).logits.argmax(1) != data.targets
    expected = torch.where(wrong, 5, 1)
    expected[5] = 0
    assert 0 < wrong.sum() < 48
    assert torch.equal(final["options"]["weights"], expected)


@pytest.mark.parametrize(
    ("errors", "copies"),
    [(0, 0), (1, 98), (5, 18), (6, 14), (33, 1), (34, 0), (50, 0), (60, 0), (100, 0)],
)
def test_without_a_number_errors_count_as_much_as_the_rest(errors, copies):
    """The code: the whole part of (n - e) / e, less 1; never below 0."""
    assert balancing_copies(torch.arange(100) < errors) == copies


def test_an_epoch_has_every_sample_and_every_copy(data, tmp_path, monkeypatch):
    always(monkeypatch, torch.arange(48) < 8)
    seen: list[torch.Tensor] = []
    step = ERM.step

    def recorded(method, batch):
        seen.append(batch.index)
        return step(method, batch)

    monkeypatch.setattr(ERM, "step", recorded)
    method = JTT(first_epochs=1, copies=9)
    options = {"network": tiny_network(), "folder": tmp_path / "run"}
    crossbias.fit(method, data, config=dataclasses.replace(CONFIG, epochs=1), **options)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["step"]) for line in log] == [("first", 3), ("final", 8)]
    counts = torch.cat(seen[-8:]).bincount(minlength=48)
    assert counts.tolist() == [10] * 8 + [1] * 40


@pytest.mark.parametrize(("errors", "name"), [(0, "hardly any errors"), (48, "errors everywhere")])
def test_without_errors_or_with_nothing_else_it_is_plain_training_and_says_so(
    errors, name, data, monkeypatch
):
    plain = trained(ERM(), data).network.state_dict()
    always(monkeypatch, torch.arange(48) < errors)
    result = trained(JTT(), data)
    for key, value in result.network.state_dict().items():
        assert torch.equal(value, plain[key]), key
    assert name in {symptom.name for symptom in result.health}


def test_a_class_without_errors_is_named_and_counts_as_before(monkeypatch):
    data = tiny_data(90)
    wrong = (data.targets != 1) & (torch.arange(90) % 6 == 0)
    (found,) = error_symptoms(wrong, data)
    assert found.name == "classes without errors"
    assert "right on every training sample of 1, 2, so" in found.sentence
    always(monkeypatch, wrong)
    health = trained(JTT(copies=5), data).health
    assert found.name in {symptom.name for symptom in health}


def test_errors_in_every_class_are_healthy():
    assert not list(error_symptoms(torch.arange(90) % 7 == 0, tiny_data(90)))


@pytest.mark.parametrize(("steps", "first"), [(1000, 200), (2000, 400), (90, 90)])
def test_the_first_training_is_a_fifth_but_not_too_short(steps, first, data, monkeypatch):
    lengths = []

    def train(self, method, **options):
        lengths.append(options.get("steps"))
        return tiny_network()

    monkeypatch.setattr(Run, "train", train)
    trained(JTT(), data, steps=steps)
    assert lengths == [first, None]


@pytest.mark.parametrize("seed", SEEDS)
def test_conflicting_images_are_right_that_plain_training_gets_wrong(seed):
    train, test = shortcut_data(900, seed=seed), shortcut_data(600, seed=seed, split="test")
    config = TrainConfig(epochs=4, batch_size=32, device="cpu", lr=0.003, seed=seed)
    plain, twice = (
        crossbias.fit(method, train, network="mlp", config=config).evaluate(test)["test"]
        for method in (ERM(), JTT(first_epochs=2))
    )
    assert plain.aligned.value > 0.95
    assert twice.conflicting.value > plain.conflicting.value + 0.3
