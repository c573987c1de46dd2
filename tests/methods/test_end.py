"""EnD, beside plain training."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.data.order import epoch_order
from crossbias.errors import CrossbiasError
from crossbias.functional import end_terms
from crossbias.methods import ERM, EnD
from crossbias.seeds import seed_for
from crossbias.testing import contract

OTHER_VALUES = {"alpha": 0.9, "beta": 0.9, "variant": "paper", "layer": "body.0"}


@pytest.mark.parametrize("rule", contract(EnD, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


def weights(method, data, network, config=CONFIG):
    """Weights after a training that starts from those of the network."""
    result = crossbias.fit(method, data, network=network, config=config, fresh=False)
    return result.network.state_dict()


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
    result = crossbias.fit(method, data, network=network, config=config, fresh=False)

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


def test_a_single_bias_value_and_a_batch_without_pairs_leave_the_entangling_term_zero(data):
    single = dataclasses.replace(data, attributes={"color": torch.zeros_like(data.targets)})
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    for variant in ("released", "paper"):
        ours = weights(EnD(alpha=0.5, beta=100.0, variant=variant), single, network)
        other = weights(EnD(alpha=0.5, beta=0.0, variant=variant), single, network)
        for key, value in other.items():
            torch.testing.assert_close(ours[key], value)
