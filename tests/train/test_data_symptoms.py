"""What is wrong with data and validation is named before and after any training."""

import dataclasses

import pytest
import torch
from torch import nn

import crossbias
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.methods import ERM
from crossbias.testing import tiny_data
from crossbias.train.data_symptoms import data_symptoms, validation_symptoms

TRAIN, VALIDATION = tiny_data(480), tiny_data(240, seed=1, split="validation")
CONFIG = TrainConfig(epochs=3, batch_size=16, device="cpu")


def cut(data: BiasedDataset, conflicting: int) -> BiasedDataset:
    """The aligned samples and so many of the conflicting ones."""
    is_aligned = data.targets == data.biases
    return data.subset(is_aligned | ((~is_aligned).cumsum(0) <= conflicting))


def names(*arguments) -> list[str]:
    return [symptom.name for symptom in data_symptoms(*arguments)]


def test_healthy_data_has_no_symptom():
    for selection in ("last", "validation-worst-group"):
        assert names(TRAIN, VALIDATION, selection) == []
    assert names(TRAIN, None, "last") == []


def test_classes_with_too_few_conflicting_samples_are_listed():
    keep = (TRAIN.targets != 1) | (TRAIN.biases == 1)
    keep |= (~keep).cumsum(0) <= 9
    (found,) = data_symptoms(TRAIN.subset(keep), None, "last")
    assert found.name == "too few conflicting training samples"
    assert "conflict with color: 1 (9). No" in found.sentence  # class 1 has nine


def test_data_without_bias_labels_has_nothing_to_say():
    assert names(cut(TRAIN, 2).with_bias(None), cut(VALIDATION, 2), "validation-accuracy") == []
    unknown = dataclasses.replace(TRAIN, attributes={"color": torch.full((480,), -1)})
    assert names(unknown, VALIDATION, "last") == []


def test_a_bias_without_association_has_nothing_to_conflict_with():
    even = {"targets": torch.arange(480) % 3, "attributes": {"color": torch.arange(480) // 3 % 2}}
    balanced = dataclasses.replace(TRAIN, **even, alignments={})
    assert not balanced.alignment().any()
    assert names(balanced, cut(VALIDATION, 2), "last") == []


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (0, ", so it says nothing about them."),
        (16, ", so the standard error of its accuracy on them is up to 12.5%."),
    ],
)
def test_too_few_conflicting_validation_samples_to_judge_from(number, told):
    (found,) = data_symptoms(TRAIN, cut(VALIDATION, number), "last")
    assert found.name == "too few conflicting validation samples"
    assert f"has {number or 'no'} samples" in found.sentence
    assert found.sentence.endswith(told)


def test_choosing_without_labels_on_validation_data_as_biased_as_training():
    biased = cut(TRAIN, 40)
    for selection in ("validation-accuracy", "validation-loss"):
        assert names(biased, cut(VALIDATION, 25), selection) == ["validation as biased as training"]
    assert names(biased, cut(VALIDATION, 25), "validation-worst-group") == []
    assert names(biased, VALIDATION, "validation-accuracy") == []  # a fourth of it conflicts


def test_validation_values_are_matched_by_name():
    """In the validation data the values are numbered otherwise; aligned stays aligned."""
    turned = dataclasses.replace(
        VALIDATION,
        attributes={"color": (VALIDATION.biases + 1) % 3},
        values={"color": ("2", "0", "1")},
        alignments={},
    )
    assert names(TRAIN, turned, "last") == names(TRAIN, VALIDATION, "last")


def test_a_validation_that_never_changes_is_named():
    still = Network(nn.Flatten(), nn.Linear(108, 3))  # and no running statistics
    nn.init.zeros_(still.head.weight)  # always the same class
    options = {"network": still, "config": None}
    options["config"] = dataclasses.replace(CONFIG, lr=1e-12, selection="validation-accuracy")
    found = crossbias.fit(ERM(), TRAIN, VALIDATION, **options).health
    nothing = "final network learned nothing"
    assert [symptom.name for symptom in found] == ["constant validation", nothing]
    options["config"] = dataclasses.replace(options["config"], selection="last")
    (only,) = crossbias.fit(ERM(), TRAIN, VALIDATION, **options).health
    assert only.name == nothing
    assert validation_symptoms([0.5, 0.5]) == []
    assert validation_symptoms([0.5, 0.5, 0.6]) == []
