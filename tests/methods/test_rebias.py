"""ReBias: each update is the one Algorithm 1 asks for."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.functional import hsic
from crossbias.methods import ERM, ReBias
from crossbias.train.run import Run

SGD = TrainConfig(batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)


def small_biased_network(*, num_classes: int) -> Network:
    return Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 5)), nn.Linear(5, num_classes))


def updated(network: Network, loss: torch.Tensor) -> Network:
    """A copy after one step of plain gradient descent."""
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    moved = copy.deepcopy(network)
    with torch.no_grad():
        for parameter, gradient in zip(moved.parameters(), gradients, strict=True):
            parameter.sub_(0.1 * gradient)
    return moved


@pytest.mark.parametrize("order", ["g-then-f", "f-then-g"])
def test_one_step_is_algorithm_1_written_out(order, data, monkeypatch):
    import sys
    import types

    module = types.ModuleType("my_networks")
    module.g = small_biased_network
    monkeypatch.setitem(sys.modules, "my_networks", module)

    torch.manual_seed(0)
    start = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    method = ReBias(biased="my_networks:g", lambda_f=0.7, lambda_g=1.3, sigma=0.9, order=order)
    run = Run(data, network=start, config=SGD)
    method.setup(run)
    f, g = copy.deepcopy(method.network.module), copy.deepcopy(method.biased_network.module)
    batch = next(run.loader(data).batches([torch.arange(48)]))
    losses = method.step(batch)

    def dependence(one: Network, other: Network) -> torch.Tensor:
        u, v = one(batch.inputs).features, other(batch.inputs).features
        return hsic(u, v, sigma_u=0.9, sigma_v=0.9)

    def step_f(f: Network, g: Network) -> Network:
        task = F.cross_entropy(f(batch.inputs).logits, batch.target)
        return updated(f, task + 0.7 * dependence(f, g))

    def step_g(f: Network, g: Network) -> Network:
        task = F.cross_entropy(g(batch.inputs).logits, batch.target)
        return updated(g, task - 1.3 * dependence(f, g))

    assert losses["biased"].item() == pytest.approx(
        F.cross_entropy(g(batch.inputs).logits, batch.target).item(), rel=1e-5
    )
    if order == "g-then-f":
        g = step_g(f, g)
        f = step_f(f, g)
    else:
        f = step_f(f, g)
        g = step_g(f, g)
    for ours, expected in ((method.network, f), (method.biased_network, g)):
        for key, value in expected.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[key], value, rtol=1e-4, atol=1e-6)


def test_without_strength_f_is_plain_training(data, network):
    config = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)
    plain = crossbias.fit(ERM(), data, network=network, config=config).network.state_dict()
    method = ReBias(lambda_f=0.0)
    ours = crossbias.fit(method, data, network=network, config=config).network.state_dict()
    for key, value in plain.items():
        torch.testing.assert_close(ours[key], value, rtol=1e-4, atol=1e-6)


def test_hsic_is_logged_for_the_learning_curve(data, network, tmp_path):
    config = TrainConfig(epochs=1, batch_size=16, device="cpu")
    crossbias.fit(ReBias(), data, network=network, config=config, folder=tmp_path / "run")
    assert '"hsic": ' in (tmp_path / "run" / "log.jsonl").read_text()
