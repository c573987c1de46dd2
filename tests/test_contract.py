"""What every method must keep, whatever it does."""

import dataclasses
import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.methods import METHODS, Method
from crossbias.progress import Progress
from crossbias.registry import create_method, name_of
from crossbias.types import UNKNOWN

# Another value for every hyper-parameter of every method: a new one must be entered here.
OTHER_VALUES: dict[str, dict[str, Any]] = {
    "erm": {},
    "end": {
        "alpha": 0.9,
        "beta": 0.9,
        "variant": "paper",
        "layer": "body.0",
        "balanced": True,
    },
    "rebias": {
        "biased": "convnet",
        "lambda_f": 0.5,
        "lambda_g": 0.5,
        "sigma": 0.7,
        "position": "logits",
        "unbiased": False,
        "order": "f-then-g",
    },
    "pgd": {
        "score": "vmf",
        "q": 0.3,
        "biased_epochs": 1,
        "from_biased": False,
        "balance": 30.0,
        "dimensions": 3,
        "floor": 0.9,
        "reweight": True,
    },
    "lnl": {
        "target": "color",
        "view": "image",
        "layer": "body.0",
        "unlearn": "confusion",
        "lambda_f": 0.5,
        "mu": 0.0,
        "from_biased": False,
        "biased_epochs": 1,
        "lr_factor": 0.5,
        "bias_lr_factor": 3.0,
    },
    "ie": {
        "members": 1,
        "ensemble_length": 30,
        "q": 0.1,
        "confidence": 0.4,
        "reference_start": 0.5,
        "guidance_start": 0.5,
        "alpha_loss": 0.9,
        "alpha_score": 0.9,
        "tau": 3.0,
        "lambda_sim": 0.9,
        "partners": "all",
        "empty": "candidates",
        "score_weights": False,
        "guidance_loss": False,
        "negative_loss": False,
        "detach": True,
        "explained": "prediction",
    },
}
OTHER_VALUES["denoised"] = {"inner": "erm", "noise_epochs": 1}
# What a knob needs beside it to have an effect at all.
TOGETHER = {
    "balance": {"score": "vmf"},
    "dimensions": {"score": "vmf"},
    "floor": {"score": "vmf"},
    "view": {"target": "color"},
    "ie members": {"ensemble_length": 10, "confidence": 0.4},
    "ie q": {"ensemble_length": 10, "confidence": 0.4},
    "ie confidence": {"ensemble_length": 10},
    "ie reference_start": {"guidance_start": 0.5},
}
CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)

every_method = pytest.mark.parametrize("name", METHODS)


def trained(method: Method, data, network, validation=None, **changes: Any) -> dict[str, Tensor]:
    config = dataclasses.replace(CONFIG, **changes)
    result = crossbias.fit(method, data, validation, network=network, config=config)
    return result.network.state_dict()


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


class Recorder(Progress):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def end_epoch(self, record):
        self.records.append(record)


def test_every_hyperparameter_of_every_method_has_another_value_here():
    assert {name: set(values) for name, values in OTHER_VALUES.items()} == {
        name: set(create_method(name).hyperparameters()) for name in METHODS
    }


@every_method
def test_losses_are_finite_and_named_the_same_in_every_epoch(name, data, network, validation):
    recorder = Recorder()
    crossbias.fit(
        create_method(name), data, validation, network=network, config=CONFIG, progress=recorder
    )
    for stage in {record["stage"] for record in recorder.records}:
        losses = [record["losses"] for record in recorder.records if record["stage"] == stage]
        assert len({tuple(values) for values in losses}) == 1
        assert "loss" in losses[0]
        assert all(torch.tensor(list(values.values())).isfinite().all() for values in losses)


@every_method
def test_every_trainable_parameter_moves(name, data, network, monkeypatch):
    """Of every network a method builds: what gets no gradient must be frozen by declaration."""
    from crossbias.train.run import Run

    built: list[tuple[nn.Module, dict[str, Tensor]]] = []
    build = Run.build

    def remembered(self, *arguments):
        module, optimizer = build(self, *arguments)
        start = {key: value.detach().clone() for key, value in module.named_parameters()}
        built.append((module, start))
        return module, optimizer

    monkeypatch.setattr(Run, "build", remembered)
    trained(create_method(name), data, network)
    assert built
    for module, start in built:
        for key, parameter in module.named_parameters():
            assert not parameter.requires_grad or not torch.equal(parameter, start[key]), key


@pytest.mark.parametrize(
    ("name", "changed"),
    [(name, changed) for name, values in OTHER_VALUES.items() for changed in values],
)
def test_every_hyperparameter_changes_the_result(name, changed, data, network):
    needed = TOGETHER.get(changed, TOGETHER.get(f"{name} {changed}", {}))
    usual = create_method(name, **needed)
    other = create_method(name, **needed | {changed: OTHER_VALUES[name][changed]})
    assert other.hyperparameters()[changed] != usual.hyperparameters()[changed]
    assert not equal(trained(usual, data, network), trained(other, data, network))


@every_method
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(name, data, network):
    first = trained(create_method(name), data, network)
    assert equal(first, trained(create_method(name), data, network))
    assert not equal(first, trained(create_method(name), data, network, seed=1))


@every_method
def test_a_fitted_method_can_be_fitted_again(name, data, network):
    """Nothing of the first training is left in the method."""
    method = create_method(name)
    assert equal(trained(method, data, network), trained(method, data, network))


@every_method
@pytest.mark.parametrize("stop_after", [1, 4, 5])
def test_stopped_and_resumed_equals_uninterrupted(
    name, stop_after, data, network, validation, tmp_path, monkeypatch
):
    """Stopped in mid-epoch and at the end of one, in the first training and in the last."""
    from crossbias.train.run import Run

    config = dataclasses.replace(CONFIG, selection="validation-accuracy")
    arguments = {"network": network, "config": config}
    whole = crossbias.fit(create_method(name), data, validation, **arguments)

    taken = 0

    def asked_to_stop(self, step):
        nonlocal taken
        taken += 1
        return taken == stop_after

    folder = tmp_path / "run"
    with monkeypatch.context() as patched, pytest.raises(Interrupted, match="--resume"):  # noqa: PT012
        patched.setattr(Run, "asked_to_stop", asked_to_stop)
        crossbias.fit(create_method(name), data, validation, folder=folder, **arguments)
    result = crossbias.fit(
        create_method(name), data, validation, folder=folder, resume=True, **arguments
    )
    assert equal(whole.network.state_dict(), result.network.state_dict())
    assert (folder / "done").exists()
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert len({(line["stage"], line["epoch"]) for line in lines}) == len(lines)


@every_method
def test_bf16_runs_on_the_cpu_and_keeps_float32_weights(name, data, network):
    weights = trained(create_method(name), data, network, precision="bf16")
    assert all(value.isfinite().all() for value in weights.values())
    assert weights["head.weight"].dtype == torch.float32
    assert not equal(weights, trained(create_method(name), data, network))


@every_method
def test_the_global_generator_and_the_readers_network_are_left_alone(name, data, network):
    state, weights = torch.get_rng_state(), {k: v.clone() for k, v in network.state_dict().items()}
    trained(create_method(name), data, network)
    assert torch.equal(state, torch.get_rng_state())
    assert equal(weights, network.state_dict())


@every_method
def test_no_hooks_are_left_on_the_trained_network(name, data, network):
    result = crossbias.fit(create_method(name), data, network=network, config=CONFIG)
    assert type(result.network) is crossbias.Network
    assert not result.network.training
    for module in result.network.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert not module._backward_hooks
    assert all(not parameter._backward_hooks for parameter in result.network.parameters())


@every_method
def test_bias_labels_are_asked_for_before_training_or_not_needed(name, data, network):
    unlabeled = dataclasses.replace(data, attributes={"color": torch.full((48,), UNKNOWN)})
    method = create_method(name)
    if method.supervision == "bias labels":
        for without in (unlabeled, data.with_bias(None)):
            with pytest.raises(CrossbiasError, match="use a method that needs none: erm, rebias"):
                trained(method, without, network)
    else:
        with_labels, without = trained(method, data, network), trained(method, unlabeled, network)
        assert equal(with_labels, without)


@every_method
def test_a_subset_trains_with_indices_of_the_full_set(name, data, network):
    weights = trained(create_method(name), data.subset(torch.arange(8, 40)), network)
    assert all(value.isfinite().all() for value in weights.values())


@every_method
def test_a_class_without_conflicting_samples_is_trained_on(name, data, network, validation):
    """Its groups are validated none the less."""
    conflicting = (data.targets == 0) & (data.biases != 0)
    part = data.subset(~conflicting)
    recorder = Recorder()
    result = crossbias.fit(
        create_method(name), part, validation, network=network, config=CONFIG, progress=recorder
    )
    for key, value in result.network.state_dict().items():
        assert value.isfinite().all(), key
    last = recorder.records[-1]
    found = torch.tensor([*last["losses"].values(), *last["validation"].values()])
    assert found.isfinite().all()


@every_method
def test_the_config_file_names_the_method_and_what_it_consumed(name, data, network, tmp_path):
    method = create_method(name)
    crossbias.fit(method, data, network=network, config=CONFIG, folder=tmp_path / "run")
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert create_method(**record["method"]) == method
    assert name_of(method) == name
    assert record["supervision"] == method.supervision
    assert TrainConfig.from_dict(record["train"]) == CONFIG
    assert record["data"]["hashes"]["train"] == data.hash


@every_method
def test_every_method_is_documented_and_says_what_it_is(name):
    kind = METHODS[name]
    assert kind.__doc__
    assert kind.paper
    for parameter in create_method(name).hyperparameters():
        assert f"        {parameter}: " in kind.__doc__, parameter
