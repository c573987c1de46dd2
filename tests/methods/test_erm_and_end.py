"""Plain training, and EnD beside it."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.functional import end_terms
from crossbias.methods import ERM, EnD

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

    from crossbias.data.order import epoch_order
    from crossbias.seeds import seed_for

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
