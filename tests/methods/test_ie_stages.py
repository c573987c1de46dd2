"""IE's stages: the ensemble and its division, what is refused, resumed, fed and logged."""

import dataclasses
import json

import pytest
import torch
from torch import nn

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.methods import IE
from crossbias.methods.bias_ensemble import (
    divided,
    ensemble_certainty,
    ensemble_division,
    member_steps,
)
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)
KINDS = ("aligned", "conflicting")


def test_division_by_majority(data):
    certainty = torch.zeros(5, 48)
    certainty[:3, :30] = 0.995  # three of five are certain, two are wrong
    certainty[3:, 30:40] = 0.995
    certainty[:, 40:] = 0.5  # right, and not certain
    aligned, candidates = divided(certainty, data, confidence=0.99)
    assert torch.equal(aligned, torch.arange(48) < 30)
    assert torch.equal(candidates, (torch.arange(48) >= 30) & (torch.arange(48) < 40))


def test_a_class_without_aligned_samples_counts_as_aligned(data):
    certainty = torch.where(data.targets == 1, 0.0, 1.0).expand(3, 48)
    subset = data.subset(torch.arange(6, 48))
    aligned, candidates = divided(certainty, subset, confidence=0.99)
    assert torch.equal(aligned, torch.arange(48) >= 6)
    assert torch.equal(candidates, (torch.arange(48) >= 6) & (data.targets == 1))


def test_where_hardly_any_of_a_class_is_certain_those_answered_rightly_are_aligned(data):
    """Class 0 is certain of all, class 1 of none, class 2 of one in sixteen."""
    certainty = torch.full((3, 48), 0.6)
    certainty[:, data.targets == 0] = 0.999
    certainty[:, (data.targets == 2).nonzero()[0, 0]] = 0.999
    wrong = torch.arange(48) % 4 == 1
    certainty[:, wrong] = 0.0
    aligned, candidates = divided(certainty, data, confidence=None)
    assert torch.equal(aligned, ~wrong)
    assert torch.equal(candidates, wrong)
    strict, _ = divided(certainty, data, confidence=0.99)
    assert int(strict[data.targets == 2].sum()) == 1


def test_an_ensemble_that_learned_nothing_is_not_believed(data, network, monkeypatch):
    """Half of the answers are right in each of three classes, or all of one class."""
    run = Run(data, network=network, config=CONFIG)
    for right, believed in ((torch.arange(48) % 5 > 0, True), (data.targets == 0, False)):
        monkeypatch.setattr(
            "crossbias.methods.bias_ensemble.ensemble_certainty",
            lambda *_, answers=right, **__: answers.float().expand(3, 48),
        )
        options = {"members": 3, "length": 4, "q": 0.7}
        aligned, candidates = ensemble_division(run, **options, confidence=None, by_answers=True)
        assert bool(candidates.any()) == believed
        assert bool(aligned.all()) != believed
        for confidence in (0.99, None):
            _, candidates = ensemble_division(run, **options, confidence=confidence)
            assert candidates.any()


def test_members_may_see_every_class_equally_often(data, network, monkeypatch):
    seen = []
    train = Run.train

    def remembered(self, method, **options):
        seen.append(options["config"].sampling)
        return train(self, method, **options)

    monkeypatch.setattr(Run, "train", remembered)
    for balanced in (True, False):
        run = Run(data, network=network, config=CONFIG)
        ensemble_certainty(run, members=1, steps=1, q=0.7, class_balanced=balanced)
    assert seen == ["class-balanced", "uniform"]


def test_certainty_is_the_probability_of_right_predictions(data, network, monkeypatch):
    trained = []
    train = Run.train

    def remembered(self, method, **options):
        trained.append((options, train(self, method, **options)))
        return trained[-1][1]

    monkeypatch.setattr(Run, "train", remembered)
    run = Run(data, network=network, config=CONFIG)
    certainty = ensemble_certainty(run, members=3, steps=4, q=0.7)
    assert [options["name"] for options, _ in trained] == ["ensemble-1", "ensemble-2", "ensemble-3"]
    assert not torch.equal(trained[0][1].head.weight, trained[1][1].head.weight)
    for member, (options, member_network) in zip(certainty, trained, strict=True):
        assert options["steps"] == 4
        probability = member_network((data.inputs.float() / 255 - 0.5) / 0.5).logits.softmax(1)
        for row, number in enumerate(data.targets.tolist()):
            right = int(probability[row].argmax()) == number
            expected = probability[row, number].item() if right else 0.0
            assert member[row].item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("length", "steps", "expected"),
    [(0.02, 6, 6), (0.02, 600, 50), (0.02, 6000, 120), (0.1, 600, 60), (3, 600, 3)],
)
def test_a_fraction_is_at_least_fifty_steps(length, steps, expected):
    """At most the whole training; a number of steps holds as it is."""
    assert member_steps(length, steps) == expected


class LayerBeforeHead(nn.Module):
    """Maps are averaged, and the head sees something else, as in MobileNetV3, VGG or GhostNet."""

    def __init__(self, middle: nn.Module, features: int) -> None:
        super().__init__()
        self.maps, self.pool = nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1)
        self.middle, self.head = middle, nn.Linear(features, 3)

    def forward(self, images):
        return self.head(self.middle(self.pool(self.maps(images)).flatten(1)))


class PooledByFunction(nn.Module):
    """Maps are rectified and averaged by functions, as in DenseNet."""

    def __init__(self) -> None:
        super().__init__()
        self.maps, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 3)

    def forward(self, images):
        return self.head(self.maps(images).relu().mean((2, 3)))


@pytest.mark.parametrize(
    ("network", "found"),
    [
        ("mlp", "has no maps"),
        ("convnet-end", "computes something else from its maps"),
        (LayerBeforeHead(nn.Linear(4, 5), 5), "computes 5 features from 4 maps"),
        (LayerBeforeHead(nn.BatchNorm1d(4), 4), "computes something else from its maps"),
    ],
    ids=["none", "unit", "layer", "batch-norm"],
)
def test_a_network_without_averaged_maps_is_refused_before_any_training(
    network, found, data, tmp_path
):
    message = rf"features are the average of its last maps, but this one {found}; use one"
    with pytest.raises(CrossbiasError, match=message):
        crossbias.fit(IE(), data, network=network, config=CONFIG, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_maps_that_a_network_pools_by_a_function_are_guided(data):
    method = IE(members=1, partners="all", score_weights=False, guidance_start=0, reference_start=0)
    trained = crossbias.fit(method, data, network=PooledByFunction(), config=CONFIG).network
    assert trained(torch.rand(2, 3, 6, 6)).maps.shape == (2, 4, 4, 4)


def test_a_reference_after_the_start_of_guidance_is_refused(data, network):
    method = IE(reference_start=0.5, guidance_start=0.1)
    with pytest.raises(CrossbiasError, match=r"reference_start 0.5 is after guidance_start 0.1"):
        crossbias.fit(method, data, network=network, config=CONFIG)


@pytest.mark.parametrize("stop_after", [5, 7, 9, 11])
def test_stopped_in_the_guided_training_and_resumed_equals_uninterrupted(
    stop_after, data, network, tmp_path, monkeypatch
):
    """The ensemble's two steps, then six: before guidance, in it, and at an epoch's end."""
    config = dataclasses.replace(CONFIG, epochs=4, augment=("flip", "crop"))
    method = IE(confidence=0.99, members=2, ensemble_length=1, reference_start=0, guidance_start=5)
    whole = crossbias.fit(method, data, network=network, config=config, folder=tmp_path / "whole")
    calls = iter(range(1, 100))
    with monkeypatch.context() as patched, pytest.raises(Interrupted):  # noqa: PT012
        patched.setattr(Run, "asked_to_stop", lambda self, step: next(calls) == stop_after)
        crossbias.fit(method, data, network=network, config=config, folder=tmp_path / "run")
    result = crossbias.fit(
        method, data, network=network, config=config, folder=tmp_path / "run", resume=True
    )
    for key, value in whole.network.state_dict().items():
        assert torch.equal(value, result.network.state_dict()[key])
    for name in ("ensemble", "guidance-pairs", "guidance-maps"):
        paths = [tmp_path / folder / "stages" / f"{name}.pt" for folder in ("whole", "run")]
        one, other = (torch.load(path, weights_only=True) for path in paths)
        assert torch.equal(one, other)


def test_killed_after_training_the_maps_are_made_from_the_restored_tables(
    data, network, tmp_path, monkeypatch
):
    method = IE(confidence=0.99, members=1, ensemble_length=1, reference_start=0, guidance_start=1)
    arguments = {"network": network, "config": CONFIG}
    crossbias.fit(method, data, folder=tmp_path / "whole", **arguments)

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patched.setattr("crossbias.methods.ie.save_guidance_maps", killed)
        crossbias.fit(method, data, folder=tmp_path / "run", **arguments)
    crossbias.fit(method, data, folder=tmp_path / "run", resume=True, **arguments)
    for name in ("guidance-pairs", "guidance-maps", "guidance-pictures"):
        paths = [tmp_path / folder / "stages" / f"{name}.pt" for folder in ("whole", "run")]
        one, other = (torch.load(path, weights_only=True) for path in paths)
        assert torch.equal(one, other)
    stages = tmp_path / "run" / "stages"
    pairs, pictures = (
        torch.load(stages / f"guidance-{name}.pt", weights_only=True)
        for name in ("pairs", "pictures")
    )
    assert torch.equal(pictures, data.inputs[pairs[:, 0]])


def test_data_fed_by_workers_trains_to_the_same_bits(data, network):
    config = dataclasses.replace(CONFIG, augment=("flip",), workers=0)
    weights = [
        crossbias.fit(
            IE(partners="all"), data, network=network, config=dataclasses.replace(config, **changes)
        ).network.state_dict()
        for changes in ({}, {"resident_bytes": 0})
    ]
    assert all(torch.equal(value, weights[1][key]) for key, value in weights[0].items())


def test_scores_of_both_kinds_of_samples_are_logged_where_labels_tell_them(data, network, tmp_path):
    def losses_of(data, name):
        method = IE(reference_start=0)
        crossbias.fit(method, data, network=network, config=CONFIG, folder=tmp_path / name)
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        return [json.loads(line)["losses"] for line in lines if '"final"' in line]

    kinds = {f"{what}_{kind}" for what in ("score", "negatives") for kind in KINDS}
    for losses in losses_of(data, "labeled"):
        assert kinds | {"negatives"} <= losses.keys()
    for losses in losses_of(data.with_bias(None), "unlabeled"):
        assert not kinds & losses.keys()
        assert "negatives" in losses
