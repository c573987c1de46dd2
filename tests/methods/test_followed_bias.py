"""Features that follow the bias after a method should have removed it from them are named."""

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import BiasedDataset, Method, Network, TrainConfig
from crossbias.methods import ERM, LNL, EnD
from crossbias.methods.followed_bias import Similarities, similarities
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.evaluation import batches_for, evaluation_pass

NAME = "features follow the bias"


def shortcut(samples: int, strength: float, seed: int) -> BiasedDataset:
    """Two classes as stripes in noise; a bright or dark channel matches most of them."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(samples) % 2
    aligned = torch.rand(samples, generator=generator) < strength
    biases = torch.where(aligned, targets, 1 - targets)
    images = torch.randint(0, 120, (samples, 3, 6, 6), generator=generator)
    images[:, 1] = 40 + 120 * biases[:, None, None]
    for number in (0, 1):
        images[targets == number, 0, 3 * number : 3 * number + 3] += 15
    return BiasedDataset(
        inputs=images.to(torch.uint8), targets=targets, attributes={"light": biases}, bias="light",
        mean=(0.3,) * 3, std=(0.2,) * 3,
    )  # fmt: skip


def body() -> Network:
    layers = nn.Sequential(nn.Flatten(), nn.Linear(108, 32), nn.ReLU(), nn.Linear(32, 16))
    return Network(layers, nn.Linear(16, 2))


def warned(method: Method, validation: BiasedDataset | None = None, **changes) -> list[str]:
    config = TrainConfig(**{"epochs": 4, "lr": 0.003} | changes, batch_size=32, device="cpu")
    result = crossbias.fit(
        method, shortcut(600, 0.95, 0), validation, network=body(), config=config, progress=False
    )
    return [symptom.sentence for symptom in result.health if symptom.name == NAME]


@pytest.mark.parametrize("method", [EnD(alpha=0.0, beta=0.0), LNL(mu=0.0, lambda_f=0.0)])
def test_a_method_that_does_nothing_is_named(method):
    (sentence,) = warned(method, epochs=2)  # later it knows the training samples by heart
    assert sentence.startswith("Two training samples with the same light and different classes")
    (sentence,) = warned(method, dataclasses.replace(shortcut(400, 0.5, 1), split="validation"))
    assert sentence.startswith("Two validation samples")


def test_one_that_works_and_plain_training_are_not():
    strong = EnD(alpha=2.0, beta=2.0)
    validation = dataclasses.replace(shortcut(400, 0.5, 1), split="validation")
    assert warned(strong, validation, sampling="group-balanced") == []
    assert warned(ERM(), validation) == []


def test_nothing_is_said_where_bias_and_class_are_not_associated():
    data = shortcut(400, 0.5, 2)
    even = dataclasses.replace(data, attributes={"light": torch.arange(400) // 2 % 2})
    assert not even.alignment().any()
    config = TrainConfig(epochs=1, batch_size=32, device="cpu")
    result = crossbias.fit(
        EnD(alpha=0.0, beta=0.0), even, network=body(), config=config, progress=False
    )
    assert not any(symptom.name == NAME for symptom in result.health)


def test_similarities_are_means_over_pairs_of_groups_of_means_over_pairs_of_samples():
    data, network = tiny_data(60), tiny_network()
    data = dataclasses.replace(
        data, attributes={"color": torch.where(torch.arange(60) % 7 == 0, -1, data.biases)}
    )
    found = similarities(evaluation_pass(network, batches_for(network, data)), data)
    unit = F.normalize(
        network.eval()(next(batches_for(network, data)).inputs).features.detach().double()
    )
    cosines: dict[tuple[int, int], list[float]] = {}
    for one, other in itertools.permutations(range(60), 2):
        groups = int(data.groups[one]), int(data.groups[other])
        if min(groups) >= 0:
            cosines.setdefault(groups, []).append(float(unit[one] @ unit[other]))
    kinds: dict[tuple[bool, bool], list[float]] = {}
    for (one, other), values in cosines.items():
        key = one // 3 == other // 3, one % 3 == other % 3
        kinds.setdefault(key, []).append(sum(values) / len(values))
    order = ((True, True), (True, False), (False, True), (False, False))
    wanted = [sum(kinds[key]) / len(kinds[key]) for key in order]
    assert found == pytest.approx(wanted, abs=1e-6)


def test_the_scale_goes_from_the_class_to_the_bias():
    assert Similarities(1.0, 1.0, 0.0, 0.0).followed == -1
    assert Similarities(1.0, 0.0, 1.0, 0.0).followed == 1


def test_a_kind_of_pairs_that_does_not_occur_gives_nothing():
    data, network = shortcut(40, 1.0, 3), body()
    assert similarities(evaluation_pass(network, batches_for(network, data)), data) is None
