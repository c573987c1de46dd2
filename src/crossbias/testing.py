"""The contract that every method keeps, as a test for anybody's method.

``check_method(MyMethod, other_values={"strength": 2.0})`` trains a method many times on tiny data
and raises ``AssertionError`` where it breaks a rule: losses that are not finite, a hyper-parameter
without effect, a resumed run that ends with other weights, and so on. With pytest, ``contract``
makes each rule a test of its own.
"""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.experiment import load_trained
from crossbias.networks import Network, Recipe
from crossbias.progress import Progress
from crossbias.registry import create_method
from crossbias.train.config import TrainConfig
from crossbias.train.evaluation import predict
from crossbias.train.fit import fit as fit_aloud
from crossbias.train.method import Method, name_of
from crossbias.types import UNKNOWN

__all__ = ["Rule", "check_method", "contract", "tiny_data", "tiny_network"]

_CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)
_Weights = dict[str, Tensor]

fit = partial(fit_aloud, progress=False)


class Rule(NamedTuple):
    """One rule of the contract; ``check`` raises ``AssertionError`` where it is broken."""

    name: str
    check: Callable[[], None]

    def __str__(self) -> str:
        return self.name


def check_method(
    kind: type[Method],
    *,
    other_values: Mapping[str, Any],
    together: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Check a method against every rule of the contract.

    Args:
        kind: The class. It must be importable, because a run folder names it.
        other_values: Another valid value for every hyper-parameter. Each must change the result.
        together: For a hyper-parameter that has an effect only beside others, their values.

    Raises:
        AssertionError: The method breaks a rule; the message names it.
    """
    for rule in contract(kind, other_values=other_values, together=together):
        try:
            rule.check()
        except AssertionError as error:
            raise AssertionError(f"{kind.__name__}: {rule.name}: {error}") from error


def contract(
    kind: type[Method],
    *,
    other_values: Mapping[str, Any],
    together: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Rule]:
    """The rules of the contract for one method; arguments as for ``check_method``.

    With pytest::

        @pytest.mark.parametrize("rule", contract(MyMethod, other_values={...}), ids=str)
        def test_contract(rule):
            rule.check()
    """
    together = together or {}
    rules = {
        "every hyper-parameter has another value here": partial(_listed, kind, other_values),
        "every hyper-parameter is documented": partial(_documented, kind),
        **{name: partial(check, kind) for name, check in _RULES.items()},
        **{
            f"stopped after {steps} steps and resumed": partial(_resumes, kind, steps)
            for steps in (1, 4, 5)
        },
        **{
            f"{knob} changes the result": partial(
                _turns, kind, knob, value, dict(together.get(knob, {}))
            )
            for knob, value in other_values.items()
        },
    }
    return [Rule(name, check) for name, check in rules.items()]


def tiny_data(
    samples: int = 48, classes: int = 3, *, seed: int = 0, split: str = "train"
) -> BiasedDataset:
    """Images of 6 x 6 pixels with noise: one channel shows the class, another the bias."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(samples) % classes
    conflicting = torch.rand(samples, generator=generator) < 0.25
    shift = torch.randint(1, classes, (samples,), generator=generator)
    biases = torch.where(conflicting, (targets + shift) % classes, targets)
    images = torch.randint(0, 60, (samples, 3, 6, 6), generator=generator)
    images[:, 0] += 60 * targets[:, None, None]
    images[:, 1] += 60 * biases[:, None, None]
    return BiasedDataset(
        inputs=images.to(torch.uint8),
        targets=targets,
        attributes={"color": biases},
        bias="color",
        name="tiny",
        split=split,
        alignments={"color": torch.eye(classes, dtype=torch.bool)},
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    )


def _validation() -> BiasedDataset:
    """Data with some samples of every group."""
    return tiny_data(90, seed=1, split="validation")


def tiny_network(classes: int = 3, *, dropout: float = 0.1) -> Network:
    """A convolution with batch normalization and dropout, its weights the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(dropout)
        )
        return Network(body, nn.Linear(6, classes))


class _EpochRecorder(Progress):
    """Keeps the line of each epoch."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Keep it."""
        self.records.append(record)


def _trained(method: Method, data: BiasedDataset | None = None, **changes: Any) -> _Weights:
    config = dataclasses.replace(_CONFIG, **changes)
    result = fit(method, data or tiny_data(), _validation(), network=tiny_network(), config=config)
    return result.network.state_dict()


class _Training(NamedTuple):
    """A training of a method at its defaults, and what was around it."""

    network: Network
    records: list[dict[str, Any]]
    built: list[tuple[nn.Module, _Weights]]  # every network the method built, and its first weights
    given: tuple[_Weights, _Weights]  # weights of the network given, before and after
    generator: tuple[Tensor, Tensor]  # state of the global generator, before and after


_trainings: dict[type[Method], _Training] = {}


def _training(kind: type[Method]) -> _Training:
    """Made once for all rules that look at it."""
    if kind not in _trainings:
        _trainings[kind] = _train_usual(kind)
    return _trainings[kind]


def _train_usual(kind: type[Method]) -> _Training:
    from crossbias.train.run import Run

    given, recorder, built = tiny_network(), _EpochRecorder(), []
    build = Run.build

    def remembered(self: Run, *arguments: Any, **keywords: Any) -> Any:
        module, optimizer = build(self, *arguments, **keywords)
        start = {key: value.detach().clone() for key, value in module.named_parameters()}
        built.append((module, start))
        return module, optimizer

    weights = {key: value.clone() for key, value in given.state_dict().items()}
    state = torch.get_rng_state()
    options: dict[str, Any] = {"network": given, "config": _CONFIG, "progress": recorder}
    with mock.patch.object(Run, "build", remembered):
        network = fit(kind(), tiny_data(), _validation(), **options).network
    states = (state, torch.get_rng_state())
    return _Training(network, recorder.records, built, (weights, given.state_dict()), states)


_kept: dict[tuple[type[Method], str, str], _Weights] = {}


def _usual(
    kind: type[Method], needed: Mapping[str, Any] | None = None, *, selection: str = "last"
) -> _Weights:
    """What the method trains at its defaults but for these; several rules compare with it."""
    if not needed and selection == _CONFIG.selection:
        return _training(kind).network.state_dict()
    method = create_method(name_of(kind()), **needed or {})
    key = (kind, repr(method), selection)
    if key not in _kept:
        _kept[key] = _trained(method, selection=selection)
    return _kept[key]


def _equal(one: _Weights, other: _Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def _listed(kind: type[Method], other_values: Mapping[str, Any]) -> None:
    missing = set(kind().hyperparameters()) ^ set(other_values)
    assert not missing, f"other_values and the hyper-parameters differ in {sorted(missing)}"


def _documented(kind: type[Method]) -> None:
    assert kind.__doc__, "the class has no docstring"
    assert kind.paper, "paper is empty"
    for parameter in kind().hyperparameters():
        assert f"        {parameter}: " in kind.__doc__, f"Args has no entry {parameter!r}"


def _is_finite(kind: type[Method]) -> None:
    records = _training(kind).records
    for stage in {record["stage"] for record in records}:
        losses = [record["losses"] for record in records if record["stage"] == stage]
        assert len({tuple(values) for values in losses}) == 1, f"{stage}: names of losses change"
        assert "loss" in losses[0], f"{stage}: no entry 'loss'"
        for values in losses:
            assert torch.tensor(list(values.values())).isfinite().all(), f"{stage}: {values}"


def _moves(kind: type[Method]) -> None:
    """Every parameter of every network that a method builds; the others must be frozen."""
    built = _training(kind).built
    assert built, "no network is built"
    for module, start in built:
        for key, parameter in module.named_parameters():
            stays = torch.equal(parameter, start[key])
            assert not (parameter.requires_grad and stays), f"{key} is trainable and does not move"


def _turns(kind: type[Method], knob: str, value: Any, needed: dict[str, Any]) -> None:
    usual = create_method(name_of(kind()), **needed)
    other = create_method(name_of(kind()), **needed | {knob: value})
    changed = other.hyperparameters()[knob] != usual.hyperparameters()[knob]
    assert changed, f"{value!r} is the value it has anyway"
    assert not _equal(_usual(kind, needed), _trained(other)), f"{knob}={value!r} changes nothing"


def _repeats(kind: type[Method]) -> None:
    method = kind()
    first = _trained(method)
    assert _equal(first, _usual(kind)), "the same seed gives other weights"
    assert _equal(first, _trained(method)), "the first training leaves something in the method"
    assert not _equal(first, _trained(kind(), seed=1)), "another seed gives the same weights"


def _resumes(kind: type[Method], steps: int) -> None:
    """Stopped in mid-epoch and at the end of one, in the first training and in the last."""
    from crossbias.train.run import Run

    data, validation = tiny_data(), _validation()
    config = dataclasses.replace(_CONFIG, selection="validation-accuracy")
    options: dict[str, Any] = {"network": tiny_network(), "config": config}
    whole = _usual(kind, selection=config.selection)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        stopped = False
        asked = [*[False] * (steps - 1), True]
        with mock.patch.object(Run, "asked_to_stop", side_effect=asked):
            try:
                fit(kind(), data, validation, folder=folder, **options)
            except Interrupted:
                stopped = True
        assert stopped, f"the training ends before step {steps}"
        resumed = fit(kind(), data, validation, folder=folder, resume=True, **options)
        assert _equal(whole, resumed.network.state_dict()), "other weights"
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        epochs = {(line["stage"], line["epoch"]) for line in lines}
        assert len(epochs) == len(lines), "the log has an epoch twice"


def _runs_in_bf16(kind: type[Method]) -> None:
    weights = _trained(kind(), precision="bf16")
    for key, value in weights.items():
        assert value.isfinite().all(), f"{key} is not finite"
        assert value.dtype != torch.bfloat16, f"{key} is kept in bf16"
    assert not _equal(weights, _usual(kind)), "bf16 changes nothing"


def _leaves_alone(kind: type[Method]) -> None:
    training = _training(kind)
    assert torch.equal(*training.generator), "the global generator was used"
    assert _equal(*training.given), "the given network was changed"


def _leaves_no_hooks(kind: type[Method]) -> None:
    network = _training(kind).network
    assert isinstance(network, Network), f"fit returned a {type(network).__name__}"
    assert not network.training, "the network is in training mode"
    for name, module in network.named_modules():
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        assert not any(hooks), f"a hook is left on {name or 'the network'}"
    assert all(not parameter._backward_hooks for parameter in network.parameters())


def _asks_for_labels(kind: type[Method]) -> None:
    data = tiny_data()
    unlabeled = dataclasses.replace(data, attributes={"color": torch.full((48,), UNKNOWN)})
    if kind().supervision != "bias labels":
        same = _equal(_usual(kind), _trained(kind(), unlabeled))
        assert same, "bias labels change the result, but supervision does not say so"
        return
    for without in (unlabeled, data.with_bias(None)):
        refusal = ""
        try:
            _trained(kind(), without)
        except CrossbiasError as error:
            refusal = str(error)
        assert "needs bias labels" in refusal, "it needs bias labels and trains without any"


def _trains_without_conflicts(kind: type[Method]) -> None:
    """One class has no conflicting sample; its groups are validated none the less."""
    data, recorder = tiny_data(), _EpochRecorder()
    part = data.subset(~((data.targets == 0) & (data.biases != 0)))
    options: dict[str, Any] = {"network": tiny_network(), "config": _CONFIG}
    result = fit(kind(), part, _validation(), progress=recorder, **options)
    for key, value in result.network.state_dict().items():
        assert value.isfinite().all(), f"{key} is not finite"
    last = recorder.records[-1]
    found = torch.tensor([*last["losses"].values(), *last["validation"].values()])
    assert found.isfinite().all(), last


def _takes_poor_data(kind: type[Method]) -> None:
    """Black images, one class with a single sample, another one with none."""
    data = tiny_data()
    poor = dataclasses.replace(data, inputs=torch.zeros_like(data.inputs)).subset(
        (data.targets == 0) | (torch.arange(len(data)) == 1)
    )
    try:
        weights = _trained(kind(), poor)
    except CrossbiasError:
        return
    for key, value in weights.items():
        assert value.isfinite().all(), f"{key} is not finite"


def _is_recorded(kind: type[Method]) -> None:
    """The folder of a run names everything, and is enough to rebuild what was trained."""
    method, data = kind(), tiny_data()
    recipe = Recipe("convnet", {"kernel": 3})
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        result = fit(method, data, _validation(), network=recipe, config=_CONFIG, folder=folder)
        record = json.loads((folder / "config.json").read_text())
        assert create_method(**record["method"]) == method, record["method"]
        assert record["supervision"] == method.supervision, record["supervision"]
        assert TrainConfig.from_dict(record["train"]) == _CONFIG
        assert record["data"]["hashes"]["train"] == data.hash
        _, rebuilt = load_trained(folder, trust=True)
    before, after = (predict(each, data).probabilities for each in (result.network, rebuilt))
    assert torch.equal(before, after), "the network rebuilt from the folder answers otherwise"


_RULES: dict[str, Callable[[type[Method]], None]] = {
    "losses are finite and named the same in every epoch": _is_finite,
    "every trainable parameter moves": _moves,
    "the same seed gives the same weights": _repeats,
    "it runs in bf16 and keeps float32 weights": _runs_in_bf16,
    "global generators and the given network are left alone": _leaves_alone,
    "no hooks are left on the trained network": _leaves_no_hooks,
    "bias labels are asked for, or not used": _asks_for_labels,
    "a subset without conflicting samples of a class is trained on": _trains_without_conflicts,
    "data with nothing to learn from is trained on or refused": _takes_poor_data,
    "the folder is enough to rebuild what was trained": _is_recorded,
}
