"""Each way in which a method fails is made here and must be named; healthy runs are not."""

import dataclasses
import sys
import types

import pytest
import torch
from torch import nn

import crossbias
from crossbias import BiasedDataset, Method, Network, TrainConfig
from crossbias.errors import Interrupted
from crossbias.methods import (
    ERM,
    IE,
    JTT,
    LNL,
    PGD,
    REPAIR,
    AFLite,
    ClassBalanced,
    EnD,
    GroupDRO,
    ReBias,
)
from crossbias.methods.bias_ensemble import certainty_symptoms
from crossbias.methods.kinds_of_bias import biased_network_for
from crossbias.methods.symptoms import (
    TrainingAccuracy,
    biased_network_symptoms,
    draw_symptoms,
)
from crossbias.progress import Progress
from crossbias.runs.health import load_health
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=3, batch_size=32, device="cpu", lr=0.01)
LARGE = tiny_data(240)


def wide_network() -> Network:
    """A network that can learn every sample by heart."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(108, 128), nn.ReLU())
    return Network(body, nn.Linear(128, 3))


def names(method: Method, data: BiasedDataset, network: Network | None = None, **changes) -> set:
    """The names of what went wrong in a training."""
    config = dataclasses.replace(CONFIG, **changes)
    network = tiny_network(dropout=0.0) if network is None else network
    result = crossbias.fit(method, data, network=network, config=config)
    return {symptom.name for symptom in result.health}


def without_labels(data: BiasedDataset) -> BiasedDataset:
    return data.with_bias(None)


def with_invisible_bias(data: BiasedDataset) -> BiasedDataset:
    """The same bias labels, but the channel that shows them is noise."""
    images = data.inputs.clone()
    generator = torch.Generator().manual_seed(5)
    images[:, 1] = torch.randint(0, 255, images[:, 1].shape, generator=generator).to(torch.uint8)
    return dataclasses.replace(data, inputs=images)


@pytest.mark.parametrize("labels", [True, False])
def test_a_biased_network_that_memorized_is_named(labels):
    data = LARGE if labels else without_labels(LARGE)
    found = names(PGD(biased_epochs=8), data, wide_network(), epochs=1)
    assert "biased network memorized" in found


def test_a_biased_network_that_learned_nothing_is_named():
    assert "biased network learned nothing" in names(PGD(biased_epochs=1), LARGE, lr=1e-7)


def test_a_network_that_does_not_follow_the_bias_is_named():
    """Classes are noisy and the bias cannot be seen, so both kinds are as hard."""
    assert names(PGD(biased_epochs=8), without_shortcut()) == {"biased network is not biased"}


def test_an_ensemble_that_does_not_follow_the_bias_is_named():
    """Without bias labels nobody can know."""
    method = IE(members=3, ensemble_length=60)
    assert names(method, without_shortcut()) == {"ensemble is not biased"}
    assert not names(method, without_labels(without_shortcut()))


def test_a_preference_for_a_class_is_none_for_the_bias():
    """The members are right on class 0, which is mostly aligned, and on half of class 1."""
    target = torch.tensor([0] * 100 + [1] * 100)
    bias = torch.tensor([0] * 95 + [1] * 5 + [0] * 40 + [1] * 60)
    data = BiasedDataset(
        inputs=torch.zeros(200, 2), targets=target, attributes={"color": bias}, bias="color",
        alignments={"color": torch.eye(2) > 0},
    )  # fmt: skip
    right = (target == 0) | (torch.arange(200) % 2 == 0)
    (only,) = certainty_symptoms(right.float().expand(3, -1), data, confidence=None)
    assert only.name == "ensemble is not biased"
    assert "right on 55.6% of the training samples that conflict with color and on 55.6%" in str(
        only
    )
    followed = right & (bias == target)
    assert not list(certainty_symptoms(followed.float().expand(3, -1), data, confidence=None))


def without_shortcut() -> BiasedDataset:
    """A quarter of the images show another class, and no image shows the bias."""
    data = with_invisible_bias(LARGE)
    wrong = torch.arange(len(data)) % 4 == 0
    return dataclasses.replace(
        data, inputs=torch.where(wrong[:, None, None, None], data.inputs.roll(1, 0), data.inputs)
    )


def looking_like(look: torch.Tensor) -> BiasedDataset:
    """Data whose images show nothing but the given class numbers."""
    images = torch.zeros_like(LARGE.inputs)
    images[:, 0] = (120 * look)[:, None, None].to(torch.uint8)
    return dataclasses.replace(LARGE, inputs=images)


def test_draws_of_a_few_samples_are_named():
    """Two samples of each class look like another class; all others are learned exactly."""
    look = torch.where(torch.arange(240) < 6, (LARGE.targets + 1) % 3, LARGE.targets)
    found = names(PGD(biased_epochs=15, uniform=0.0), looking_like(look))
    assert "draws dominated by few samples" in found
    assert "draws dominated by few samples" not in names(PGD(biased_epochs=15), looking_like(look))


def test_draws_of_one_class_are_named_and_balanced_by_default():
    """Class 2 looks like class 0 and is rarer, so the biased network is wrong on all of it."""
    look = torch.where(LARGE.targets == 2, 0, LARGE.targets)
    keep = (LARGE.targets != 2) | (torch.arange(240) % 2 == 0)
    data = looking_like(look).subset(keep)
    method = PGD(class_balanced=False, uniform=0.0, biased_epochs=10)
    assert "draws dominated by a class" in names(method, data)
    assert "draws dominated by a class" not in names(PGD(biased_epochs=10), data)


def test_an_ensemble_that_learned_nothing_or_is_sure_of_nothing_or_of_everything_is_named():
    assert "ensemble learned nothing" in names(IE(members=3, ensemble_length=1), LARGE, lr=1e-7)
    unsure = names(IE(members=3, ensemble_length=24, confidence=0.9999), LARGE)
    assert "ensemble sure of nothing" in unsure
    easy = LARGE.subset(LARGE.biases == LARGE.targets)
    assert "ensemble sure of everything" in names(IE(members=3, ensemble_length=60), easy)


def test_an_ensemble_that_is_right_and_not_certain_is_healthy():
    """After a short training it divides the data rightly; only its certainty is to come."""
    short = {"members": 3, "ensemble_length": 40}
    assert names(IE(**short), shortcut_data(), epochs=8) == set()
    found = names(IE(**short, confidence=0.99), shortcut_data(), epochs=8)
    assert found == {"ensemble sure of nothing"}


@pytest.mark.parametrize(
    "method", [ClassBalanced(), GroupDRO(), PGD(biased_epochs=8)], ids=lambda method: method.name
)
def test_draws_that_change_the_shares_of_classes_are_named(method):
    rare = LARGE.subset((LARGE.targets != 1) | (torch.arange(240) < 60))
    assert "draws change the class shares" in names(method, rare)
    assert "draws change the class shares" not in names(method, LARGE)


def hard_class(number: int) -> BiasedDataset:
    """Half of the samples of one class look like the next class."""
    odd = (LARGE.targets == number) & (torch.arange(240) % 2 == 0)
    return looking_like(torch.where(odd, (LARGE.targets + 1) % 3, LARGE.targets))


@pytest.mark.parametrize(
    ("method", "healthy"),
    [
        (JTT(first_epochs=8, copies=4),) * 2,
        (AFLite(feature_epochs=8, slice_share=0.5, target_share=0.3),) * 2,
        (REPAIR(keep="threshold", probe_epochs=40), REPAIR(keep="threshold", probe_epochs=8)),
        (REPAIR(probe_epochs=40), REPAIR(probe_epochs=8)),
    ],
    ids=["jtt", "aflite", "repair, threshold", "repair, sample"],
)
def test_copies_and_filters_that_change_the_shares_of_classes_are_named(method, healthy):
    """The game of REPAIR goes on to take from classes what they have in common."""
    assert "draws change the class shares" in names(method, hard_class(1))
    assert "draws change the class shares" not in names(healthy, LARGE)


def test_biased_networks_of_the_wrong_kind_are_named(monkeypatch):
    def sees_nothing(*, num_classes: int) -> Network:
        body = nn.Sequential(nn.Flatten(), nn.Linear(108, 5), nn.Threshold(1e9, 1.0))
        return Network(body, nn.Linear(5, num_classes))

    def sees_everything(*, num_classes: int) -> Network:
        return wide_network()

    module = types.ModuleType("kinds")
    module.nothing, module.everything = sees_nothing, sees_everything
    monkeypatch.setitem(sys.modules, "kinds", module)
    assert names(ReBias(biased="kinds:nothing"), LARGE) == {"biased network sees nothing"}
    for data in (LARGE, without_labels(LARGE)):
        found = names(ReBias(biased="kinds:everything"), data, epochs=6)
        assert found == {"biased network sees everything"}


@pytest.mark.parametrize("target", ["labels", "color"])
def test_nothing_to_unlearn_is_named(target):
    data = with_invisible_bias(LARGE)
    if target == "color":  # the levels of every pixel are noise
        generator = torch.Generator().manual_seed(6)
        noise = torch.randint(1, 255, data.inputs.shape, generator=generator).to(torch.uint8)
        data = dataclasses.replace(data, inputs=noise)
    method = LNL(target=target, from_biased=False, layer="body.2")
    assert names(method, data, lr=1e-4) == {"nothing to unlearn"}


def test_batches_without_pairs_are_named():
    few = (LARGE.biases == LARGE.targets) | (torch.arange(240) < 8)
    assert "batches without pairs" in names(EnD(), LARGE.subset(few), batch_size=16)


@pytest.mark.parametrize(
    "method",
    [
        ERM(),
        EnD(alpha=1.0, beta=3.0),
        PGD(biased_epochs=5),
        ReBias(),
        LNL(from_biased=False, lambda_f=0.5, mu=0.2),
        IE(members=3, ensemble_length=60, confidence=0.7),
    ],
    ids=lambda method: method.name,
)
def test_a_healthy_run_has_no_symptom(method):
    """The bias is easy to see, the class is not: the data the methods are made for."""
    assert names(method, shortcut_data(), epochs=8) == set()


def shortcut_data() -> BiasedDataset:
    """Images whose color shows the bias at once, and whose class is a faint noisy pattern."""
    data = tiny_data(480)
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 120, data.inputs.shape, generator=generator)
    images[:, 1] = 40 + 80 * data.biases[:, None, None]
    for number in range(3):
        images[data.targets == number, 0, 2 * number : 2 * number + 2] += 40
    return dataclasses.replace(data, inputs=images.to(torch.uint8))


def test_what_is_said_names_numbers_and_the_remedy():
    memorized = biased_network_symptoms(TrainingAccuracy(0.99, 1.0, 0.97), LARGE)
    (only,) = memorized
    assert str(only) == (
        "The biased network is right on 97.0% of the training samples that conflict with color: it "
        "has learned the hard samples by heart, and their scores no longer stand out. Train it for "
        "fewer epochs with biased_epochs, or with a lower rate."
    )
    weights = torch.zeros(240)
    weights[[0, 1, 2, 3]] = 1.0
    few, *_ = draw_symptoms(weights, LARGE)
    assert "as if there were only 4 samples for 3 classes" in few.sentence
    assert list(draw_symptoms(torch.ones(240), LARGE)) == []


class _Notes(Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("stop_after", [2, 16, 18])
def test_warnings_survive_an_interruption_and_are_given_once(stop_after, tmp_path, monkeypatch):
    """Stopped in the biased training and in the final one, in mid-epoch and at its end."""
    data, method = tiny_data(), PGD(biased_epochs=5)
    options = {
        "network": tiny_network(),
        "config": dataclasses.replace(CONFIG, batch_size=16),
    }
    whole = crossbias.fit(method, data, folder=tmp_path / "whole", **options)
    assert {"too few conflicting training samples"} < {each.name for each in whole.health}
    assert load_health(tmp_path / "whole" / "health.json") == list(whole.health)
    taken, heard = 0, _Notes()

    def asked_to_stop(self: Run, step: int) -> bool:
        nonlocal taken
        taken += 1
        return taken == stop_after

    with monkeypatch.context() as patch:
        patch.setattr(Run, "asked_to_stop", asked_to_stop)
        with pytest.raises(Interrupted):
            crossbias.fit(method, data, folder=tmp_path / "run", progress=heard, **options)
    resumed = crossbias.fit(
        method, data, folder=tmp_path / "run", resume=True, progress=heard, **options
    )
    assert resumed.health == whole.health
    warnings = [note for note in heard.notes if note.startswith("warning: ")]
    assert warnings == [f"warning: {symptom}" for symptom in whole.health]


def test_a_biased_network_is_chosen_for_color_images_alone():
    assert biased_network_for(LARGE) == "convnet-1x1"
    gray = dataclasses.replace(LARGE, inputs=LARGE.inputs[:, :1].repeat(1, 3, 1, 1))
    with pytest.raises(
        crossbias.errors.CrossbiasError,
        match=r"images of tiny are gray.*biased=NAME: convnet-1x1 for color, bagnet18 for texture",
    ):
        crossbias.fit(ReBias(), gray, network=tiny_network(), config=CONFIG)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 255, LARGE.inputs.shape, generator=generator).to(torch.uint8)
    with pytest.raises(crossbias.errors.CrossbiasError, match="does not tell their class"):
        biased_network_for(dataclasses.replace(LARGE, inputs=noise))
    vectors = BiasedDataset(inputs=torch.zeros(4, 2), targets=torch.arange(4) % 2, name="toy")
    with pytest.raises(crossbias.errors.CrossbiasError, match="inputs of toy are no images"):
        biased_network_for(vectors)
    assert names(ReBias(biased="convnet"), gray) is not None
