"""Optimizers by name."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

import crossbias
from crossbias import TrainConfig
from crossbias.errors import Interrupted
from crossbias.methods import ERM, ReBias
from crossbias.train.optimizers import is_capturable, make_optimizer, set_learning_rate
from crossbias.train.run import Run

CPU = torch.device("cpu")
CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01, optimizer="adamp")


def made(name: str, parameter: nn.Parameter, **options: float) -> torch.optim.Optimizer:
    return make_optimizer(TrainConfig(optimizer=name, lr=0.01, **options), [parameter], CPU)


def adamp_step(weight: Tensor, gradient: Tensor) -> Tensor:
    """The first step of Algorithm 2 of AdamP (Heo et al., ICLR 2021) with its defaults."""
    mean, square = 0.1 * gradient / (1 - 0.9), 0.001 * gradient**2 / (1 - 0.999)
    step = mean / (square.sqrt() + 1e-8)
    cosine = torch.dot(weight, gradient).abs() / (weight.norm() * gradient.norm())
    if cosine < 0.1 / math.sqrt(len(weight)):
        direction = weight / weight.norm()
        step = step - torch.dot(direction, step) * direction
    return weight - 0.01 * step


@pytest.mark.parametrize("along", [0.0, 1.0])
def test_adamp_projects_the_step_of_a_gradient_that_is_orthogonal_to_the_weight(along):
    """As it is where normalization follows; a gradient along the weight is left as it is."""
    weight = torch.tensor([3.0, 4.0, 0.0, 1.0])
    gradient = torch.tensor([4.0, -3.0, 2.0, 0.0]) + along * weight
    parameter = nn.Parameter(weight.clone()[None])
    parameter.grad = gradient[None].clone()
    made("adamp", parameter).step()
    torch.testing.assert_close(parameter[0].detach(), adamp_step(weight, gradient))
    moved = parameter[0].detach() - weight
    assert (torch.dot(moved, weight).abs() < 1e-6) == (along == 0)


def test_weight_decay_and_learning_rate_reach_adamp():
    parameter = nn.Parameter(torch.full((1, 4), 2.0))
    optimizer = made("adamp", parameter, weight_decay=0.5)
    set_learning_rate(optimizer, 0.1, CPU)
    parameter.grad = torch.zeros(1, 4)
    optimizer.step()
    # decoupled; a gradient of zero counts as orthogonal, where AdamP decays a tenth as fast
    torch.testing.assert_close(parameter.detach(), torch.full((1, 4), 2 * (1 - 0.1 * 0.5 * 0.1)))


@pytest.mark.parametrize("method", [ERM(), ReBias()], ids=repr)
def test_adamp_resumes_to_the_same_bits(method, data, network, tmp_path, monkeypatch):
    whole = crossbias.fit(method, data, network=network, config=CONFIG).network.state_dict()
    taken = itertools.count(1)
    options = {"network": network, "config": CONFIG, "folder": tmp_path / "run"}
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda self, step: next(taken) == 2)
        with pytest.raises(Interrupted):
            crossbias.fit(method, data, **options)
    resumed = crossbias.fit(method, data, resume=True, **options).network.state_dict()
    assert all(torch.equal(value, resumed[key]) for key, value in whole.items())


def test_only_adamp_keeps_steps_from_being_recorded():
    names = ("adam", "adamw", "sgd", "adamp")
    assert [is_capturable(TrainConfig(optimizer=name)) for name in names] == [True] * 3 + [False]
