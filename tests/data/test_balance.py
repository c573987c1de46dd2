"""Sampling that gives every class, or every group, the same share."""

import dataclasses
import json

import pytest
import torch

import crossbias
from crossbias import BiasedDataset, TrainConfig
from crossbias.data.order import balanced_weights, epoch_order
from crossbias.errors import CrossbiasError
from crossbias.methods import ERM, PGD


def test_the_balanced_sampler_gives_more_samples_an_entangling_pair(data):
    """Eq. 12 with 1 conflicting sample in 40, in batches of 16."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(400) % 2
    biases = torch.where(torch.arange(400) < 10, 1 - targets, targets)
    rare = BiasedDataset(
        inputs=torch.rand(400, 2, generator=generator),
        targets=targets,
        attributes={"color": biases},
        bias="color",
    )

    def entangled(weights) -> float:
        order = epoch_order(400, 0, seed=0, weights=weights)
        found = []
        for rows in order.split(16):
            target, bias = targets[rows], biases[rows]
            pairs = (target[:, None] == target) & (bias[:, None] != bias)
            found.append(pairs.any(1).float().mean())
        return torch.stack(found).mean().item()

    weights = balanced_weights(rare, "group-balanced")
    drawn = epoch_order(400, 0, seed=0, weights=weights)
    groups = torch.bincount(targets[drawn] * 2 + biases[drawn], minlength=4)
    assert groups.float().std() < 20  # around 100 each, 8.7 by chance
    assert entangled(None) < 0.4
    assert entangled(weights) > 0.95


def test_balanced_weights_know_subsets_and_unknown_biases(data):
    biases = data.biases.clone()
    biases[:6] = -1
    part = dataclasses.replace(data, attributes={"color": biases}).subset(torch.arange(3, 40))
    weights = balanced_weights(part, "group-balanced")
    assert weights.shape == (48,)
    assert (weights[:3] == 0).all()
    assert (weights[40:] == 0).all()
    for target in range(3):
        for bias in range(-1, 3):
            rows = part.index[(part.targets == target) & (part.biases == bias)]
            if len(rows):
                assert weights[rows].sum().item() == pytest.approx(1)


def test_class_balanced_weights_know_nothing_of_the_bias(data):
    part = data.subset(torch.cat([torch.arange(0, 48, 3), torch.arange(1, 48, 12)]))
    weights = balanced_weights(part, "class-balanced")
    shares = torch.zeros(3).index_add_(0, part.targets, weights[part.index])
    assert shares.tolist() == pytest.approx([1, 1, 0])
    assert balanced_weights(part, "uniform") is None


def test_sampling_of_the_configuration_draws_so_and_says_what_it_knew(data, network, tmp_path):
    """The same training as one with these weights; a method with weights of its own keeps them."""

    def trained(method, sampling, **options):
        config = TrainConfig(epochs=2, batch_size=16, device="cpu", sampling=sampling)
        return crossbias.fit(method, data, network=network, config=config, **options)

    class Drawn(ERM):
        def fit(self, run):
            return run.train(self, weights=balanced_weights(run.data, "group-balanced"))

    balanced = trained(ERM(), "group-balanced", folder=tmp_path / "run").network.state_dict()
    by_hand = trained(Drawn(), "uniform").network.state_dict()
    uniform = trained(ERM(), "uniform").network.state_dict()
    assert all(torch.equal(value, by_hand[key]) for key, value in balanced.items())
    assert not torch.equal(balanced["head.weight"], uniform["head.weight"])
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert record["supervision"] == "bias labels"
    assert record["train"]["sampling"] == "group-balanced"
    # The biased network of PGD is drawn for as configured, the final one by its scores.
    assert trained(PGD(), "class-balanced").config["supervision"] == "none"


def test_group_balanced_sampling_needs_bias_labels(data, network):
    config = TrainConfig(epochs=1, device="cpu", sampling="group-balanced")
    with pytest.raises(
        CrossbiasError, match=r"group-balanced needs bias labels, but 'tiny' has none"
    ):
        crossbias.fit(ERM(), data.with_bias(None), network=network, config=config)
