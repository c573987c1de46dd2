"""Denoised: what is left out, what is counted, and that any method fits inside."""

import dataclasses
import itertools
import json

import pytest
import torch
import torch.nn.functional as F

import crossbias
from crossbias import BiasedDataset, Recipe, TrainConfig
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.experiment import Experiment, load_trained
from crossbias.methods import ERM, METHODS, PGD, Denoised, EnD, ReBias
from crossbias.methods.denoised import kept_counts
from crossbias.progress import Progress
from crossbias.registry import create_method
from crossbias.runs.files import read_json
from crossbias.testing import contract, tiny_data
from crossbias.train.method import described
from crossbias.train.run import Run

OTHER_VALUES = {"inner": "erm", "noise_epochs": 1, "threshold": "ratios"}


@pytest.mark.parametrize("rule", contract(Denoised, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


class Notes(Progress):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text):
        self.texts.append(text)


def in_clusters(samples: int = 240, *, noisy: int = 24) -> BiasedDataset:
    """Two classes far apart, the last samples of the wrong class; bias and truth are known."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(samples) % 2
    inputs = 4.0 * truth[:, None] - 2 + 0.5 * torch.randn(samples, 2, generator=generator)
    targets = truth.clone()
    targets[samples - noisy :] = 1 - truth[samples - noisy :]
    biases = truth.clone()
    biases[::10] = 1 - truth[::10]
    return BiasedDataset(
        inputs=inputs, targets=targets, attributes={"color": biases, "clean": truth}, bias="color",
        alignments={"color": torch.eye(2, dtype=torch.bool)}, name="clusters",
    )  # fmt: skip


def test_wrong_labels_are_left_out_and_right_ones_kept(tmp_path):
    """The inner method sees exactly the samples that eq. 2 calls clean, with their own indices."""
    data, seen = in_clusters(), []

    class Looking(ERM):
        def fit(self, run):
            seen.append(run.data)
            return super().fit(run)

    config = dataclasses.replace(CONFIG, epochs=8)
    folder = tmp_path / "run"
    method = Denoised(inner=Looking())
    crossbias.fit(method, data, network="mlp", config=config, folder=folder)

    plain = Run(data, network=crossbias.Recipe("mlp"), config=config).train(ERM(), name="noise")
    logits = plain(data.inputs).logits
    loss = F.cross_entropy(logits, data.targets, reduction="none")
    p = logits.softmax(1)
    entropy = -(p * p.log()).sum(1)
    clean = loss < loss.sum() / entropy.sum() * entropy
    assert seen[0].index.tolist() == clean.nonzero().squeeze(1).tolist()
    assert seen[0].full_size == 240
    noisy = data.targets != data.attributes["clean"]
    assert (clean & noisy).sum() <= 2  # of 24; the clusters nearly touch
    assert (clean & ~noisy).sum() >= 200  # of 216

    stages = {path.name for path in (folder / "stages").iterdir()}
    assert {"noise.state.pt", "cross-entropy.pt", "entropy.pt", "threshold.pt"} <= stages
    for name, expected in {
        "cross-entropy": loss, "entropy": entropy, "threshold": loss.sum() / entropy.sum(),
    }.items():  # fmt: skip
        stored = torch.load(folder / "stages" / f"{name}.pt", weights_only=True)
        torch.testing.assert_close(stored, expected.detach(), rtol=1e-4, atol=1e-6)
    counts = json.loads((folder / "stages" / "kept.json").read_text())
    assert counts == kept_counts(data, clean)


def test_counts_are_those_of_table_16():
    """Majority: the true label goes with the bias, whatever label the sample carries."""
    truth = torch.tensor([0, 0, 1, 1, 0, 1, 1])
    data = BiasedDataset(
        inputs=torch.zeros(7, 1),
        targets=torch.tensor([0, 0, 1, 0, 1, 0, 1]),
        attributes={"clean": truth, "color": torch.tensor([0, 1, 1, 1, 1, 0, -1])},
        bias="color",
        alignments={"color": torch.eye(2, dtype=torch.bool)},
    )
    keep = torch.tensor([True, False, True, False, True, False, True])
    found = {name: (value["before"], value["kept"]) for name, value in
             kept_counts(data, keep).items()}  # fmt: skip
    assert found == {
        "all": (7, 4),
        "clean": (4, 3),
        "noisy": (3, 1),
        "clean majority": (2, 2),
        "clean minority": (1, 0),
        "noisy majority": (1, 0),
        "noisy minority": (2, 1),
    }
    assert set(kept_counts(data.with_bias(None), keep)) == {"all", "clean", "noisy"}
    assert set(kept_counts(data.with_bias("clean"), keep)) == {"all", "clean", "noisy"}
    unknown = dataclasses.replace(data, attributes={"color": data.biases})
    assert kept_counts(unknown, keep) == {"all": {"before": 7, "kept": 4}}


@pytest.mark.parametrize("inner", [PGD(reweight=True), PGD(score="vmf")])
def test_options_of_a_method_work_inside_on_a_subset_of_the_rows(inner, data, network):
    """Tables of per-sample values keep the length of the full set."""
    result = crossbias.fit(Denoised(inner=inner), data, network=network, config=CONFIG)
    assert all(value.isfinite().all() for value in result.network.state_dict().values())


@pytest.mark.parametrize("name", [name for name in METHODS if name != "denoised"])
def test_every_method_works_inside_and_is_rebuilt_from_the_folder(name, data, tmp_path):
    """Trained on a part of the rows, with tables for all of them."""
    options = {"network": Recipe("convnet", {"kernel": 1}), "progress": False}
    config = dataclasses.replace(CONFIG, epochs=1)
    method = Denoised(inner=create_method(name), noise_epochs=1)
    folder = tmp_path / "run"
    validation = tiny_data(90, seed=1, split="validation")
    result = crossbias.fit(method, data, validation, config=config, folder=folder, **options)
    assert all(value.isfinite().all() for value in result.network.state_dict().values())
    kept = read_json(folder / "stages" / "kept.json")["all"]
    assert 0 < kept["kept"] < kept["before"] == 48
    _, rebuilt = load_trained(folder, trust=True)
    for key, value in rebuilt.state_dict().items():
        assert torch.equal(value, result.network.state_dict()[key]), key


def test_a_sample_that_is_left_out_has_no_influence_on_the_method_inside():
    data, config = in_clusters(), dataclasses.replace(CONFIG, epochs=4)
    method = Denoised(inner=ERM(), noise_epochs=3)
    whole = crossbias.fit(method, data, network="mlp", config=config).network.state_dict()
    keep = method._keep(Run(data, network=crossbias.Recipe("mlp"), config=config))
    assert 150 < keep.sum() < len(data)
    alone = crossbias.fit(ERM(), data.subset(keep), network="mlp", config=config)
    for key, value in alone.network.state_dict().items():
        assert torch.equal(value, whole[key])


@pytest.mark.parametrize("stop_after", [2, 7, 9])
def test_it_resumes_in_each_of_its_trainings_to_the_same_bits(
    stop_after, data, network, tmp_path, monkeypatch
):
    """The plain one, the biased one of PGD inside and the final one."""
    method = Denoised(inner=PGD(biased_epochs=1), noise_epochs=2)
    options = {"network": network, "config": CONFIG}
    whole = crossbias.fit(method, data, **options).network.state_dict()
    taken = itertools.count(1)
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda self, step: next(taken) == stop_after)
        with pytest.raises(Interrupted):
            crossbias.fit(method, data, folder=tmp_path / "run", **options)
    again = create_method(**json.loads((tmp_path / "run" / "config.json").read_text())["method"])
    assert again == method
    resumed = crossbias.fit(again, data, folder=tmp_path / "run", resume=True, **options)
    assert all(torch.equal(whole[k], v) for k, v in resumed.network.state_dict().items())


def test_nothing_kept_is_refused(data, network, monkeypatch):
    """A network that says the same of every sample: each ratio equals delta."""
    from crossbias.methods import denoised

    same = torch.full((len(data),), 1.1)
    monkeypatch.setattr(denoised, "loss", lambda run, network: same)
    monkeypatch.setattr(denoised, "entropy", lambda run, network: same)
    with pytest.raises(CrossbiasError, match=r"leave out all samples of tiny: .* set noise_epochs"):
        crossbias.fit(Denoised(inner=ERM()), data, network=network, config=CONFIG)


def test_everything_is_kept_where_everything_is_fitted(data, network, monkeypatch):
    from crossbias.methods import denoised

    zeros = torch.zeros(len(data))
    monkeypatch.setattr(denoised, "loss", lambda run, network: zeros)
    monkeypatch.setattr(denoised, "entropy", lambda run, network: zeros)
    whole = crossbias.fit(ERM(), data, network=network, config=CONFIG).network.state_dict()
    ours = crossbias.fit(Denoised(inner=ERM()), data, network=network, config=CONFIG)
    assert all(torch.equal(value, whole[k]) for k, value in ours.network.state_dict().items())


def test_a_class_that_would_be_lost_is_kept_whole_and_named(data, network, monkeypatch):
    from crossbias.methods import denoised

    high = torch.where(data.targets == 2, 9.0, 0.1)
    monkeypatch.setattr(denoised, "loss", lambda run, network: high)
    monkeypatch.setattr(denoised, "entropy", lambda run, network: torch.ones(len(data)))
    notes = Notes()
    whole = crossbias.fit(ERM(), data, network=network, config=CONFIG).network.state_dict()
    ours = crossbias.fit(
        Denoised(inner=ERM()), data, network=network, config=CONFIG, progress=notes
    )
    assert all(torch.equal(value, whole[k]) for k, value in ours.network.state_dict().items())
    assert "every label of class 2 looks wrong: the class is kept whole" in notes.texts
    assert "kept samples: all 48 of 48" in notes.texts


def test_supervision_is_that_of_the_method_inside(data, network):
    assert Denoised().supervision == "none"
    assert Denoised(inner=ReBias()).supervision == "kind of bias"
    with pytest.raises(CrossbiasError, match="Denoised needs bias labels, but 'tiny' has none"):
        crossbias.fit(Denoised(inner=EnD()), data.with_bias(None), network=network, config=CONFIG)


NESTED = [
    {"inner": "end", "inner.alpha": "0.5"},
    {"inner": {"name": "end", "alpha": 0.5}},
    {"inner": {"name": "end", "alpha": 0.1}, "inner.alpha": "0.5"},
    {"inner": EnD(alpha=0.5)},
]


@pytest.mark.parametrize("values", NESTED, ids=["dotted", "table", "both", "object"])
def test_the_method_inside_is_named_in_a_file_a_command_or_in_python(values):
    method = create_method("denoised", **values)
    assert method == Denoised(inner=EnD(alpha=0.5))
    assert create_method(**described(method)) == method


def test_a_file_and_the_command_line_name_the_method_inside(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[method]\nname = "denoised"\n[method.inner]\nname = "pgd"\nq = 0.5\n')
    experiment = Experiment.from_toml(path).updated(method={"inner.biased_epochs": "3"})
    assert create_method(**experiment.method) == Denoised(inner=PGD(q=0.5, biased_epochs=3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: create_method("denoised", **{"inner.q": "0.5"}), "inner of method 'denoised' has"),
        (lambda: create_method("denoised", inner="pdg"), r"no method 'pdg' \(did you mean 'pgd'"),
        (lambda: create_method("denoised", inner={"name": "pgd", "q": 7}), "q of method 'pgd'"),
        (lambda: create_method("denoised", inner=3), "inner of method 'denoised' must be Method"),
    ],
)
def test_mistakes_in_the_method_inside_are_named(make, message):
    with pytest.raises(CrossbiasError, match=message):
        make()


@pytest.mark.parametrize(
    ("inner", "message"),
    [(PGD(q=7.0), r"q of PGD must be in \(0, 1\]"), (Denoised(), "denoised in denoised")],
)
def test_a_method_that_cannot_work_inside_is_refused(inner, message, data, network):
    with pytest.raises(CrossbiasError, match=message):
        crossbias.fit(Denoised(inner=inner), data, network=network, config=CONFIG)
