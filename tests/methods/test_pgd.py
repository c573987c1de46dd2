"""PGD: what is scored, and what the final network is trained on."""

import dataclasses
import json

import pytest
import torch
import torch.nn.functional as F

import crossbias
from crossbias import TrainConfig
from crossbias.methods import PGD
from crossbias.methods.pgd import BiasedERM
from crossbias.methods.scores import SIMPLE_SCORES, gradient_acceptance, head_norm
from crossbias.testing import contract
from crossbias.train.run import Run

OTHER_VALUES = {
    "score": "vmf",
    "q": 0.3,
    "biased_epochs": 1,
    "from_biased": False,
    "balance": 30.0,
    "dimensions": 3,
    "floor": 0.9,
    "reweight": True,
    "class_balanced": False,
    "uniform": 0.0,
}
TOGETHER = {knob: {"score": "vmf"} for knob in ("balance", "dimensions", "floor")}


@pytest.mark.parametrize(
    "rule", contract(PGD, other_values=OTHER_VALUES, together=TOGETHER), ids=str
)
def test_contract(rule):
    rule.check()


CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


def watched(monkeypatch) -> list[dict]:
    """Every call of Run.train, with what it was given and what it returned."""
    calls: list[dict] = []
    original = Run.train

    def train(self, method, **options):
        start = options.get("network")
        given = options | {"method": method, "start": start and start.state_dict()}
        result = original(self, method, **options)
        calls.append(given | {"result": result})
        return result

    monkeypatch.setattr(Run, "train", train)
    return calls


def test_weights_are_the_gradient_norms_of_the_biased_network(data, network, monkeypatch):
    """One sample at a time by autograd, with respect to the head's weight."""
    calls = watched(monkeypatch)
    crossbias.fit(
        PGD(q=0.5, class_balanced=False, uniform=0.0), data, network=network, config=CONFIG
    )
    biased, final = calls
    assert biased["method"] == BiasedERM(q=0.5)
    head = biased["result"].head
    for row in range(len(data)):
        inputs = (data.inputs[row : row + 1].float() / 255 - 0.5) / 0.5
        loss = F.cross_entropy(biased["result"](inputs).logits, data.targets[row : row + 1])
        (gradient,) = torch.autograd.grad(loss, head.weight)
        torch.testing.assert_close(final["weights"][row], gradient.norm(), rtol=1e-4, atol=1e-6)


def test_the_final_network_starts_from_the_biased_one_or_afresh(data, network, monkeypatch):
    calls = watched(monkeypatch)
    for from_biased in (True, False):
        calls.clear()
        method = PGD(from_biased=from_biased)
        crossbias.fit(method, data, network=network, config=CONFIG)
        biased, final = calls
        if from_biased:
            for key, value in biased["result"].state_dict().items():
                assert torch.equal(final["start"][key], value)
        else:
            assert final["start"] is None


def test_the_biased_training_has_its_own_length(data, network, tmp_path):
    method = PGD(biased_epochs=3)
    crossbias.fit(method, data, network=network, config=CONFIG, folder=tmp_path / "run")
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert log.count('"stage": "biased"') == 3
    assert log.count('"stage": "final"') == 2


@pytest.mark.parametrize(
    ("length", "least", "steps"),
    [
        ({"epochs": 9}, 1, 9), ({"steps": 10}, 1, 3),  # a quarter, rounded up
        ({"epochs": 9}, 13, 15), ({"steps": 20}, 13, 13),  # at least 13
        ({"epochs": 3}, 13, 9), ({"steps": 10}, 13, 10),  # never more than all
    ],
)  # fmt: skip
def test_the_biased_training_is_a_quarter_of_the_final_one_but_not_too_short(
    length, least, steps, data, network, tmp_path, monkeypatch
):
    """Three steps make an epoch."""
    monkeypatch.setattr("crossbias.methods.first_training.LEAST_STEPS", least)
    config = dataclasses.replace(CONFIG, **length)
    crossbias.fit(PGD(), data, network=network, config=config, folder=tmp_path / "run")
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert max(line["step"] for line in log if line["stage"] == "biased") == steps


def test_samples_that_conflict_with_the_shortcut_score_higher():
    from crossbias import load
    from crossbias.demo import DATA, NETWORK

    options = {key: value for key, value in DATA.items() if key != "name"}
    data = load("glyphs", "train", **options | {"size": 600, "rho": 0.9})
    config = TrainConfig(epochs=6, batch_size=64, device="cpu", lr=0.003)
    recipe = crossbias.Recipe(NETWORK["name"], {"dropout": 0.0})
    run = Run(data, network=recipe, config=config)
    biased = run.train(BiasedERM(), name="biased")
    scores = head_norm(run, biased)
    conflicting = data.biases != data.targets
    assert scores[conflicting].mean() > 5 * scores[~conflicting].mean()
    for balance in (0.0, 1.0, float("inf")):
        drawn = gradient_acceptance(run, biased, dimensions=50, balance=balance, floor=0.01)
        assert drawn[conflicting].mean() > 3 * drawn[~conflicting].mean(), balance


def bare_gradients(network, data) -> torch.Tensor:
    """Whole-network gradients, one sample at a time."""
    rows = []
    for row in range(len(data)):
        inputs = (data.inputs[row : row + 1].float() / 255 - 0.5) / 0.5
        loss = F.cross_entropy(network(inputs).logits, data.targets[row : row + 1])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return torch.stack(rows)


def test_gradient_acceptance_equals_the_paper_written_out(data, network):
    """Eq. 1, the k dominant coordinates of a class, the vMF estimate and the harmonic mean."""
    network.eval()
    run = Run(data, network=network, config=CONFIG)
    k, balance = 7, 2.0
    found = gradient_acceptance(run, network, dimensions=k, balance=balance, floor=1e-300)
    gradients = bare_gradients(network, data).double()
    for number in range(3):
        rows = data.targets == number
        own = gradients[rows]
        magnitude = (1 / own.norm(dim=1)) / (1 / own.norm(dim=1)).sum()
        dominant = own.abs().sum(0).topk(k).indices
        unit = own[:, dominant] / own[:, dominant].norm(dim=1, keepdim=True)
        total = unit.sum(0)
        r = total.norm() / len(unit)
        kappa = r * (k - r**2) / (1 - r**2)
        density = torch.exp(kappa * unit @ (total / total.norm()))
        direction = density / density.sum()
        inverse_score = (1 / magnitude + balance / direction) / (1 + balance)
        expected = inverse_score / inverse_score.max()  # C / S with C = min S
        torch.testing.assert_close(found[rows], expected, rtol=1e-3, atol=1e-6)
        assert found[rows].max() == 1


def test_simple_scores_are_those_of_appendix_h(data, network):
    network.eval()
    run = Run(data, network=network, config=CONFIG)
    logits = network((data.inputs.float() / 255 - 0.5) / 0.5).logits
    target = logits.gather(1, data.targets[:, None]).squeeze(1)
    expected = {
        "loss": F.cross_entropy(logits, data.targets, reduction="none"),
        "softmax": 1 - logits.softmax(1).gather(1, data.targets[:, None]).squeeze(1),
        "logit": target.max() - target,
    }
    for name, value in expected.items():
        torch.testing.assert_close(SIMPLE_SCORES[name](run, network), value.detach())


def test_scores_of_a_subset_leave_other_rows_at_zero(data, network):
    run = Run(data.subset(data.targets != 1), network=network, config=CONFIG)
    for score in (
        gradient_acceptance(run, network, dimensions=5, balance=1.0, floor=0.01),
        *(function(run, network) for function in SIMPLE_SCORES.values()),
    ):
        assert (score[data.targets == 1] == 0).all()
        assert score.isfinite().all()


def test_more_dimensions_than_parameters_and_samples_without_gradient_are_handled(data):
    """A network that is certain of everything: all gradients vanish, all draws are alike."""
    from torch import nn

    network = crossbias.Network(nn.Flatten(), nn.Linear(108, 3))
    nn.init.zeros_(network.head.weight)
    with torch.no_grad():
        network.head.bias.copy_(torch.tensor([1e4, 0.0, 0.0]))
    certain = data.subset(data.targets == 0)
    run = Run(certain, network=network.eval(), config=CONFIG)
    score = gradient_acceptance(run, network, dimensions=10**6, balance=1.0, floor=0.01)
    torch.testing.assert_close(score[certain.index], torch.ones(len(certain), dtype=torch.float64))


def test_reweighting_trains_on_every_sample_with_weights_of_mean_one(data, network, monkeypatch):
    calls = watched(monkeypatch)
    crossbias.fit(PGD(reweight=True), data, network=network, config=CONFIG)
    weights = calls[1]["method"].weights
    assert calls[1].get("weights") is None
    torch.testing.assert_close(weights.mean().item(), 1.0, rtol=1e-5, atol=0)


@pytest.mark.parametrize("reweight", [False, True])
def test_every_class_has_the_same_share_of_the_draws(reweight, data, network, monkeypatch):
    """Within a class, the shares stay those of the scores; rows of other data have none."""
    calls = watched(monkeypatch)
    part = data.subset(torch.arange(48) % 7 > 0)
    found = {}
    for balanced in (True, False):
        calls.clear()
        method = PGD(class_balanced=balanced, uniform=0.0, reweight=reweight)
        crossbias.fit(method, part, network=network, config=CONFIG)
        given = calls[1]["method"].weights if reweight else calls[1]["weights"]
        found[balanced] = given[part.index].double()
    for number in range(3):
        rows = part.targets == number
        share = found[True][rows].sum() / found[True].sum()
        torch.testing.assert_close(share.item(), 1 / 3, rtol=1e-5, atol=0)
        ratio = found[True][rows] / found[False][rows]
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), rtol=1e-5, atol=0)


@pytest.mark.parametrize("balanced", [False, True])
def test_all_samples_have_a_share_of_the_draws_evenly(balanced, data, network, monkeypatch):
    """By default one over the number of classes, which with two classes is every second draw."""
    calls = watched(monkeypatch)
    found = {}
    for uniform in (0.0, None):
        calls.clear()
        method = PGD(class_balanced=balanced, uniform=uniform)
        crossbias.fit(method, data, network=network, config=CONFIG)
        weights = calls[1]["weights"].double()
        found[uniform] = weights / weights.sum()
    sizes = torch.bincount(data.targets)[data.targets] * 3 if balanced else len(data)
    expected = found[0.0] * 2 / 3 + 1 / 3 / torch.as_tensor(sizes).double()
    torch.testing.assert_close(found[None], expected, rtol=1e-4, atol=0)
