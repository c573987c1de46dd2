"""ReBias: each update is the one Algorithm 1 asks for."""

import copy
import dataclasses
import itertools
import json
import statistics
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.data.order import batches, epoch_order
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.functional import hsic
from crossbias.methods import ERM, LearnedMixin, ReBias, RUBi
from crossbias.seeds import seed_for
from crossbias.testing import contract
from crossbias.train.run import Run

OTHER_VALUES = {
    "biased": "convnet",
    "lambda_f": 0.5,
    "lambda_g": 0.5,
    "sigma": 0.7,
    "position": "logits",
    "unbiased": False,
    "order": "f-then-g",
}


@pytest.mark.parametrize("rule", contract(ReBias, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


SGD = TrainConfig(batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=0.1)
ADAM = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)
WIDTHS = (0.9, 0.6, 1.4)  # of f and of two g


def small_network(*, num_classes: int) -> Network:
    return Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 5)), nn.Linear(5, num_classes))


def collapsed_network(*, num_classes: int) -> Network:
    """Features that are the same for every sample, at the start and ever after."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(108, 5), nn.Threshold(1e9, 1.0))
    return Network(body, nn.Linear(5, num_classes))


@pytest.fixture(autouse=True)
def my_networks(monkeypatch):
    module = types.ModuleType("my_networks")
    module.g, module.collapsed = small_network, collapsed_network
    monkeypatch.setitem(sys.modules, "my_networks", module)


def updated(network: Network, loss: torch.Tensor) -> Network:
    """A copy after one step of plain gradient descent."""
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    moved = copy.deepcopy(network)
    with torch.no_grad():
        for parameter, gradient in zip(moved.parameters(), gradients, strict=True):
            parameter.sub_(0.1 * gradient)
    return moved


@pytest.mark.parametrize("order", ["g-then-f", "f-then-g"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(("position", "unbiased"), [("features", True), ("logits", False)])
def test_one_step_is_algorithm_1_written_out(order, number, position, unbiased, data):
    """With one and with two g, each kernel with the width of its own network."""
    torch.manual_seed(0)
    start = Network(nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), nn.Linear(8, 3))
    method = ReBias(
        biased=("my_networks:g",) * number, lambda_f=0.7, lambda_g=1.3, order=order,
        sigma=WIDTHS[: number + 1], position=position, unbiased=unbiased,
    )  # fmt: skip
    run = Run(data, network=start, config=SGD)
    method.setup(run)
    f = copy.deepcopy(method.network.module)
    gs = [copy.deepcopy(network.module) for network in method.biased_networks]
    batch = next(run.loader(data).batches([torch.arange(48)]))

    def loss_of(network: Network) -> torch.Tensor:
        return F.cross_entropy(network(batch.inputs).logits, batch.target)

    def dependence(f: Network, g: Network, width: float) -> torch.Tensor:
        u, v = (getattr(network(batch.inputs), position) for network in (f, g))
        return hsic(u, v, sigma_u=WIDTHS[0], sigma_v=width, unbiased=unbiased)

    def step_f(f: Network, gs: list[Network]) -> Network:
        total = sum(dependence(f, g, width) for g, width in zip(gs, WIDTHS[1:], strict=False))
        return updated(f, loss_of(f) + 0.7 * total)

    def step_gs(f: Network, gs: list[Network]) -> list[Network]:
        return [
            updated(g, loss_of(g) - 1.3 * dependence(f, g, width))
            for g, width in zip(gs, WIDTHS[1:], strict=False)
        ]

    losses = method.step(batch)
    mean = statistics.mean(loss_of(g).item() for g in gs)
    assert losses["biased"].item() == pytest.approx(mean, rel=1e-5)
    if order == "g-then-f":
        gs = step_gs(f, gs)
        f = step_f(f, gs)
    else:
        f = step_f(f, gs)
        gs = step_gs(f, gs)
    for ours, expected in zip([method.network, *method.biased_networks], [f, *gs], strict=True):
        for key, value in expected.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[key], value, rtol=1e-4, atol=1e-6)


def test_without_strength_f_is_plain_training(data, network):
    plain = crossbias.fit(ERM(), data, network=network, config=ADAM).network.state_dict()
    method = ReBias(lambda_f=0.0)
    ours = crossbias.fit(method, data, network=network, config=ADAM).network.state_dict()
    for key, value in plain.items():
        torch.testing.assert_close(ours[key], value, rtol=1e-4, atol=1e-6)


def log_of(method, data, network, folder) -> list[dict]:
    crossbias.fit(method, data, network=network, config=ADAM, folder=folder)
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [json.loads(line)["losses"] for line in lines]


def test_hsic_is_logged_for_the_learning_curve(data, network, tmp_path):
    for losses in log_of(ReBias(), data, network, tmp_path / "run"):
        assert set(losses) == {"loss", "task", "hsic", "biased"}


def test_median_widths_are_those_of_a_quarter_of_the_batches_by_network(data, network):
    """All pairs within a batch, one by one; nothing of the networks or generators changes."""
    method = ReBias(biased=("my_networks:g", "convnet-1x1"), sigma="median")
    run = Run(data, network=network, config=dataclasses.replace(ADAM, batch_size=6))
    method.setup(run)
    modules = [method.network, *method.biased_networks]
    before = [copy.deepcopy(module.state_dict()) for module in modules]
    generator = torch.get_rng_state()
    method.begin_epoch()
    assert torch.equal(generator, torch.get_rng_state())
    for module, state in zip(modules, before, strict=True):
        assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())

    cut = batches(epoch_order(48, 0, seed_for(0, "final", "widths")), 6)
    linear, convnet = ([] for _ in range(2))
    for rows in cut[:2]:  # of eight
        inputs = (data.inputs[rows].float() / 255 - 0.5) / 0.5
        for distances, module in zip((linear, convnet), modules[1:], strict=True):
            features = module.module(inputs).features.tolist()
            distances += [torch.dist(*torch.tensor(p)) for p in itertools.combinations(features, 2)]
    for width, distances in zip(method.widths[1:], (linear, convnet), strict=True):
        assert width.item() == pytest.approx(statistics.median_low(distances).item(), rel=1e-4)


def test_median_widths_are_refreshed_and_logged_each_epoch(data, network, tmp_path):
    method = ReBias(biased=("my_networks:g", "convnet-1x1"), sigma="median")
    first, second = log_of(method, data, network, tmp_path / "run")
    for name in ("sigma_f", "sigma_g1", "sigma_g2"):
        assert first[name] > 0
        assert first[name] != second[name]


@pytest.mark.parametrize("position", ["features", "logits"])
def test_collapsed_features_give_finite_losses_and_weights(position, data, network):
    """All of g's features coincide: the median distance is 0, HSIC is 0, f is plain training."""
    method = ReBias(biased="my_networks:collapsed", sigma="median", position=position)
    result = crossbias.fit(method, data, network=network, config=ADAM)
    assert all(value.isfinite().all() for value in result.network.state_dict().values())
    assert method.widths[1].item() == pytest.approx(1e-3)
    plain = crossbias.fit(ERM(), data, network=network, config=ADAM).network.state_dict()
    for key, value in result.network.state_dict().items():
        torch.testing.assert_close(value, plain[key], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("stop_after", [2, 3])
def test_several_networks_with_median_widths_resume_to_the_same_bits(
    stop_after, data, network, tmp_path, monkeypatch
):
    """In mid-epoch the saved widths go on; at an epoch's end they are measured again, alike."""
    method = ReBias(biased=("my_networks:g", "convnet-1x1"), sigma="median")
    whole = crossbias.fit(method, data, network=network, config=ADAM).network.state_dict()
    taken = itertools.count(1)
    options = {"network": network, "config": ADAM, "folder": tmp_path / "run"}
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda self, step: next(taken) == stop_after)
        with pytest.raises(Interrupted):
            crossbias.fit(method, data, **options)
    resumed = crossbias.fit(method, data, resume=True, **options).network.state_dict()
    assert all(torch.equal(value, resumed[key]) for key, value in whole.items())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sigma": (1.0, 1.0, 1.0)}, "3 numbers for 2 networks; give one for f and one for each"),
        ({"sigma": -1.0}, "sigma of ReBias must be a number greater than 0 or one of 'median'"),
        ({"biased": ()}, "names no network"),
    ],
)
def test_networks_and_widths_that_do_not_fit_are_refused(values, message, data, network):
    with pytest.raises(CrossbiasError, match=message):
        crossbias.fit(ReBias(**values), data, network=network, config=ADAM)


def four_classes() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(108, 4))


@pytest.mark.parametrize("kind", [ReBias, RUBi, LearnedMixin])
def test_a_biased_network_with_other_classes_is_refused(kind, data, network):
    """By all methods that have one; networks with more logits would be trained."""
    name = f"{__name__}:four_classes"
    method = kind(biased=(name,) if kind is ReBias else name)
    with pytest.raises(
        CrossbiasError, match=r":four_classes' has 4 logits, but tiny has 3 classes"
    ):
        crossbias.fit(method, data, network=network, config=ADAM)
