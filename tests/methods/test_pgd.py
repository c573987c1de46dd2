"""PGD: what is scored, and what the final network is trained on."""

import torch
import torch.nn.functional as F

import crossbias
from crossbias import TrainConfig
from crossbias.methods import PGD
from crossbias.methods.pgd import BiasedERM
from crossbias.train.run import Run

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
    crossbias.fit(PGD(q=0.5), data, network=network, config=CONFIG)
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


def test_samples_that_conflict_with_the_shortcut_score_higher():
    from crossbias.data import load
    from crossbias.demo import DATA, NETWORK

    options = {key: value for key, value in DATA.items() if key != "name"}
    data = load("glyphs", "train", **options | {"size": 600, "rho": 0.9})
    config = TrainConfig(epochs=6, batch_size=64, device="cpu", lr=0.003)
    recipe = crossbias.Recipe(NETWORK["name"], {"dropout": 0.0})
    run = Run(data, network=recipe, config=config)
    from crossbias.methods.pgd import _gradient_norm

    scores = run.score(run.train(BiasedERM(), name="biased"), _gradient_norm)
    conflicting = data.biases != data.targets
    assert scores[conflicting].mean() > 5 * scores[~conflicting].mean()
