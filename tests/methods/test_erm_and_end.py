"""Plain training, and EnD beside it."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import BiasedDataset, Network, TrainConfig
from crossbias.data.balance import balanced_weights
from crossbias.data.order import epoch_order
from crossbias.errors import CrossbiasError
from crossbias.functional import end_terms
from crossbias.methods import ERM, EnD
from crossbias.seeds import seed_for

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


def weights(method, data, network, config=CONFIG):
    return crossbias.fit(method, data, network=network, config=config).network.state_dict()


def test_end_without_strength_is_plain_training(data, network):
    plain, ours = weights(ERM(), data, network), weights(EnD(alpha=0.0, beta=0.0), data, network)
    for key, value in plain.items():
        torch.testing.assert_close(ours[key], value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("variant", ["released", "paper"])
def test_one_step_of_end_is_a_step_along_the_gradient_of_eq_1(variant, data):
    torch.manual_seed(0)
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    config = TrainConfig(
        steps=1, batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1
    )
    after = weights(EnD(alpha=0.7, beta=1.3, variant=variant), data, network, config)

    rows = epoch_order(48, 0, seed_for(0, "final"))  # the released form depends on the order
    output = network((data.inputs[rows].float() / 255 - 0.5) / 0.5)
    target, bias = data.targets[rows], data.biases[rows]
    disentangling, entangling = end_terms(output.features, target, bias, variant=variant)
    loss = F.cross_entropy(output.logits, target) + 0.7 * disentangling + 1.3 * entangling
    loss.backward()
    for key, parameter in network.named_parameters():
        torch.testing.assert_close(after[key], (parameter - 0.1 * parameter.grad).detach())


def test_samples_of_unknown_bias_take_part_in_the_cross_entropy_only(data):
    """With every bias but one unknown no pair is left: plain training."""
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    biases = torch.full((48,), -1)
    biases[0] = 0
    unlabeled = dataclasses.replace(data, attributes={"color": biases})
    plain = weights(ERM(), data, network)
    ours = weights(EnD(alpha=1.0, beta=1.0), unlabeled, network)
    for key, value in plain.items():
        torch.testing.assert_close(ours[key], value)


def test_a_named_layer_is_regularized_on_its_flattened_output(data):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 5, 3))
    network = Network(body, nn.Linear(5, 3))
    config = TrainConfig(
        steps=1, batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1
    )
    method = EnD(alpha=0.7, beta=1.3, variant="paper", layer="body.1")  # order plays no part
    result = crossbias.fit(method, data, network=network, config=config)

    inputs = (data.inputs.float() / 255 - 0.5) / 0.5
    layer = network.body[:2](inputs).reshape(48, -1)
    disentangling, entangling = end_terms(layer, data.targets, data.biases, variant="paper")
    loss = F.cross_entropy(network(inputs).logits, data.targets)
    (loss + 0.7 * disentangling + 1.3 * entangling).backward()
    after = result.network.state_dict()
    for key, parameter in network.named_parameters():
        expected = (parameter - 0.1 * parameter.grad).detach()
        torch.testing.assert_close(after[key], expected, rtol=1e-4, atol=1e-6)
    assert result.network.tapped_layer == ""


def test_a_layer_that_is_not_there_is_refused(data, network):
    with pytest.raises(CrossbiasError, match=r"no layer 'body.9'.*its layers are: body, body.0"):
        weights(EnD(layer="body.9"), data, network)


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

    weights = balanced_weights(rare)
    drawn = epoch_order(400, 0, seed=0, weights=weights)
    groups = torch.bincount(targets[drawn] * 2 + biases[drawn], minlength=4)
    assert groups.float().std() < 20  # around 100 each, 8.7 by chance
    assert entangled(None) < 0.4
    assert entangled(weights) > 0.95


def test_balanced_weights_know_subsets_and_unknown_biases(data):
    biases = data.biases.clone()
    biases[:6] = -1
    part = dataclasses.replace(data, attributes={"color": biases}).subset(torch.arange(3, 40))
    weights = balanced_weights(part)
    assert weights.shape == (48,)
    assert (weights[:3] == 0).all()
    assert (weights[40:] == 0).all()
    for target in range(3):
        for bias in range(-1, 3):
            rows = part.index[(part.targets == target) & (part.biases == bias)]
            if len(rows):
                assert weights[rows].sum().item() == pytest.approx(1)


def test_a_single_bias_value_and_a_batch_without_pairs_leave_the_entangling_term_zero(data):
    single = dataclasses.replace(data, attributes={"color": torch.zeros_like(data.targets)})
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    for variant in ("released", "paper"):
        ours = weights(EnD(alpha=0.5, beta=100.0, variant=variant), single, network)
        other = weights(EnD(alpha=0.5, beta=0.0, variant=variant), single, network)
        for key, value in other.items():
            torch.testing.assert_close(ours[key], value)
