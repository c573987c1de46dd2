"""Traps for authors of methods, each closed: what a method may rely on."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.data.order import epoch_order
from crossbias.errors import Interrupted
from crossbias.experiment import load_trained
from crossbias.methods import ERM, IE, PGD, Denoised
from crossbias.networks.fresh import looks_trained, redraw
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.method import Method
from crossbias.train.rehearsal import Rehearsal
from crossbias.train.run import Run
from crossbias.types import Output

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)


@dataclass(kw_only=True)
class Remembering(ERM):
    """Plain training that adds up each sample's losses in a table."""

    name: ClassVar[str] = ""

    def setup(self, run):
        super().setup(run)
        self.table = torch.zeros(run.data.full_size)

    def loss(self, batch):
        output = self.network(batch.inputs)
        each = F.cross_entropy(output.logits, batch.target, reduction="none")
        self.table[batch.index] += each.detach()
        return {"loss": each.mean()}

    def state(self):
        return super().state() | {"table": self.table}


@dataclass(kw_only=True)
class TwoStages(Method):
    """Draws by a table that the first training made."""

    def fit(self, run):
        first = Remembering()
        run.train(first, name="first")
        return run.train(ERM(), weights=first.table)


def stopped(method, folder, monkeypatch, *, after: int, network=None) -> None:
    """Start a run and stop it after so many steps."""
    taken = iter(range(1, 1000))
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda self, step: next(taken) == after)
        with pytest.raises(Interrupted):
            crossbias.fit(
                method, tiny_data(), network=network or tiny_network(), config=CONFIG, folder=folder
            )


def same(one: Network, other: Network) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def test_a_finished_stage_keeps_all_of_its_state(tmp_path, monkeypatch):
    """Trap 1: a table made in a stage is there after a resume in a later one."""
    options = {"network": tiny_network(), "config": CONFIG}
    whole = crossbias.fit(TwoStages(), tiny_data(), **options).network
    stopped(TwoStages(), tmp_path / "run", monkeypatch, after=8)  # the first stage takes 6
    resumed = crossbias.fit(
        TwoStages(), tiny_data(), folder=tmp_path / "run", resume=True, **options
    )
    assert same(whole, resumed.network)


def test_networks_from_one_object_start_differently_unless_they_were_trained():
    """Trap 2, and `fresh=` says which."""
    data, untrained = tiny_data(), tiny_network()
    trained = crossbias.fit(ERM(), data, network=untrained, config=CONFIG).network

    def starts(network: Network, fresh: bool | None) -> list[Tensor]:
        run = Run(data, network=network, config=CONFIG, fresh=fresh)
        return [run.build()[0].body[0].weight for _ in range(2)]

    one, other = starts(untrained, None)
    assert not torch.equal(one, other)
    assert torch.equal(one.flatten().sort().values, other.flatten().sort().values)
    assert torch.equal(starts(untrained, None)[0], one)  # by the seed
    for network, fresh in ((trained, None), (untrained, False)):
        one, other = starts(network, fresh)
        assert torch.equal(one, other)
        assert torch.equal(one, network.body[0].weight)
    one, other = starts(trained, True)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: crossbias.create("resnet18", num_classes=3),
        lambda: crossbias.create("vit_tiny_patch16_224", num_classes=3, img_size=32, depth=2),
        lambda: crossbias.create("convnet", num_classes=3),
        lambda: crossbias.create("mlp", num_classes=3, in_features=108),
    ],
    ids=["batch-norm", "layer-norm", "own-initialization", "no-norm"],
)
def test_a_network_shows_whether_it_was_trained(make):
    network = make()
    assert not looks_trained(network)
    redraw(network)
    assert not looks_trained(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    images = torch.rand(4, 108) if network.num_features == 100 else torch.rand(4, 3, 32, 32)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(10 * network(images).logits, torch.tensor([0, 1, 2, 0])).backward()
        optimizer.step()
    assert looks_trained(network)


class Pair(nn.Module):
    """Two bodies side by side."""

    def __init__(self, first: Network, second: Network) -> None:
        super().__init__()
        self.first, self.second = first.body, second.body

    def forward(self, inputs: Tensor) -> tuple[None, Tensor]:
        bodies = (self.first, self.second)
        return None, torch.cat([body(inputs).mean((2, 3)) for body in bodies], 1)


@dataclass(kw_only=True)
class TwoEncoders(ERM):
    """Trains another network than the recipe's."""

    paper: ClassVar[str] = "two encoders"
    name: ClassVar[str] = ""

    def network_for(self, make):
        first, second = make(), make()
        return Network(Pair(first, second), nn.Linear(2 * first.num_features, first.num_classes))

    def setup(self, run):
        self.run = run
        self.network, self.optimizer = run.build(lambda: self.network_for(run.make_network))


def test_what_was_trained_is_rebuilt_from_the_folder_alone(tmp_path, monkeypatch):
    """Trap 3: neither the recipe's form nor the training data is needed."""
    kind = "tests_of_traps:TwoEncoders"
    monkeypatch.setattr("crossbias.train.method.name_of", lambda method: kind)
    monkeypatch.setattr("crossbias.registry.imported", {kind: TwoEncoders}.__getitem__)
    folder, data = tmp_path / "run", tiny_data()
    network = crossbias.Recipe("convnet", {"kernel": 1})
    trained = crossbias.fit(TwoEncoders(), data, network=network, config=CONFIG, folder=folder)
    _, rebuilt = load_trained(folder, trust=True)
    images = torch.rand(5, 3, 6, 6)
    assert torch.equal(rebuilt(images).logits, trained.network(images).logits)
    first, second = trained.network.body.first[0], trained.network.body.second[0]
    assert not torch.equal(first.weight, second.weight)  # trap 7: made in one call


@dataclass(kw_only=True)
class FrozenBody(ERM):
    """Trains the head alone; beside it stands a network that is never trained."""

    name: ClassVar[str] = ""

    def setup(self, run):
        self.run = run

        def make():
            network = run.make_network()
            network.body.requires_grad_(False)
            return network

        self.network, self.optimizer = run.build(make)
        self.teacher = run.frozen(run.make_network())
        self.begun = 0

    def begin_epoch(self):
        self.begun += 1

    def loss(self, batch):
        assert self.begun, "begin_epoch was not called"
        assert self.network.training
        assert not any(module.training for module in self.network.body.modules())
        assert not any(module.training for module in self.teacher.modules())
        return super().loss(batch)

    def state(self):
        return super().state() | {"teacher": self.teacher}


def test_frozen_parts_stay_as_they_are_and_begin_epoch_runs_after_a_resume(tmp_path, monkeypatch):
    """Trap 4: running statistics and weight decay would move them."""
    network = tiny_network()
    config = dataclasses.replace(CONFIG, weight_decay=0.5, optimizer="adamw")
    options = {"network": network, "config": config, "fresh": False}
    result = crossbias.fit(FrozenBody(), tiny_data(), **options)
    for key, value in network.state_dict().items():
        assert torch.equal(value, result.network.state_dict()[key]) == key.startswith("body"), key
    method = FrozenBody()
    run = Run(tiny_data(), **options)
    method.setup(run)
    assert len(method.optimizer.param_groups[0]["params"]) == 2

    stopped(FrozenBody(), tmp_path / "run", monkeypatch, after=2, network=network)  # in mid-epoch
    options = {"network": network, "config": CONFIG}
    crossbias.fit(FrozenBody(), tiny_data(), folder=tmp_path / "run", resume=True, **options)


def test_scores_may_be_vectors_and_matrices():
    """Trap 5: features and softmax of every training row."""
    data = tiny_data().subset(torch.arange(10, 40))
    run = Run(data, network=tiny_network(), config=CONFIG)
    network = run.make_network()
    features = run.score(network, lambda batch, output: output.features)
    maps = run.score(network, lambda batch, output: output.maps)
    assert features.shape == (48, 6)
    assert maps.shape == (48, 6, 6, 6)
    assert not features[:10].any()
    torch.testing.assert_close(maps.mean((2, 3)), features)
    assert run.score(network, lambda batch, output: batch.target).shape == (48,)


def test_a_stage_may_have_a_configuration_of_its_own(monkeypatch):
    """Trap 6: another length, rate, decay and size of an epoch."""
    seen = []
    step = ERM.step

    def recorded(self, batch):
        rate = self.optimizer.param_groups[0]["lr"]
        if not isinstance(self.run, Rehearsal):
            seen.append((self.run.stage_name, len(batch.index), rate))
        return step(self, batch)

    @dataclass(kw_only=True)
    class Staged(Method):
        def fit(self, run):
            config = dataclasses.replace(
                run.config, epochs=2, lr=10.0, schedule="step", decay_epochs=1, epoch_size=20,
                gradient_clip=0.1,
            )  # fmt: skip
            first = run.train(ERM(), name="first", config=config)
            return run.train(ERM(), network=first)

    monkeypatch.setattr(ERM, "step", recorded)
    crossbias.fit(Staged(), tiny_data(), network=tiny_network(), config=CONFIG)
    assert seen[:4] == [
        ("first", 16, 10.0),
        ("first", 4, 10.0),
        ("first", 16, 1.0),
        ("first", 4, 1.0),
    ]
    assert seen[4:] == [("final", 16, 0.01)] * 6


def test_an_epoch_may_take_samples_several_times():
    """Whole numbers are repetitions, as JTT's longer epoch needs them."""
    repeats = torch.tensor([1, 0, 3, 1])
    order = epoch_order(4, 0, 0, repeats)
    assert torch.bincount(order, minlength=4).tolist() == repeats.tolist()
    assert not torch.equal(order, epoch_order(4, 1, 0, repeats))
    longer = epoch_order(4, 0, 0, size=10)
    assert torch.bincount(longer).min() >= 2
    assert len(epoch_order(4, 0, 0, torch.rand(4), size=9)) == 9


class Named(NamedTuple):
    scores: Tensor
    number: int


def test_outputs_of_any_form_survive_bf16():
    """Trap 7: tuples, dictionaries and numbers beside tensors."""
    forms: dict[str, Any] = {
        "tuple": lambda x: (x, x.long()),
        "list": lambda x: [x],
        "dictionary": lambda x: {"scores": x, "inside": (x,)},
        "named": lambda x: Named(x, 3),
        "output": lambda x: Output(x, x, x),
    }

    class Formed(nn.Module):
        def __init__(self, form: str) -> None:
            super().__init__()
            self.linear, self.form = nn.Linear(2, 3), forms[form]

        def forward(self, inputs: Tensor) -> Any:
            return self.form(self.linear(inputs))

    run = Run(
        tiny_data(), network=tiny_network(), config=dataclasses.replace(CONFIG, precision="bf16")
    )
    found = {form: run.build(Formed(form))[0](torch.rand(4, 2)) for form in forms}
    assert found["tuple"][0].dtype == torch.float32
    assert found["tuple"][1].dtype == torch.int64
    assert found["list"][0].dtype == torch.float32
    assert found["dictionary"]["inside"][0].dtype == torch.float32
    assert isinstance(found["named"], Named)
    assert found["named"].number == 3
    assert found["output"].logits.dtype == torch.float32
    assert found["output"].maps.dtype == torch.bfloat16


@dataclass(kw_only=True)
class Inferring(Method):
    """Trains a whole method to find weights, then another one with them."""

    paper: ClassVar[str] = "a pipeline in a pipeline"

    def fit(self, run):
        found = PGD(biased_epochs=1).fit(run.nested("identify", last=False))
        scores = run.stage("scores", lambda: run.score(found, lambda b, o: o.logits.max(1).values))
        keep = scores[run.data.index] > -10
        return PGD(biased_epochs=1).fit(run.nested("inner", data=run.data.subset(keep)))


def test_one_pipeline_may_hold_another(tmp_path, monkeypatch):
    """Trap 8: stages of the same name do not meet, and each is resumed."""
    options = {"network": tiny_network(), "config": CONFIG}
    method = Denoised(inner=Inferring(), noise_epochs=1)
    whole = crossbias.fit(method, tiny_data(), **options).network
    for after in (5, 9, 15, 18):
        folder = tmp_path / str(after)
        stopped(method, folder, monkeypatch, after=after)
        resumed = crossbias.fit(method, tiny_data(), folder=folder, resume=True, **options)
        assert same(whole, resumed.network), after
    stages = {path.relative_to(folder / "stages").as_posix() for path in folder.rglob("*.pt")
              if "stages" in path.parts}  # fmt: skip
    assert stages >= {
        "noise.state.pt", "inner/identify/biased.state.pt", "inner/identify/scores.pt",
        "inner/identify/final.state.pt", "inner/scores.pt", "inner/inner/biased.state.pt",
        "inner/inner/scores.pt",
    }  # fmt: skip
    assert "inner/inner/final.state.pt" not in stages  # that one is the model


def test_gradients_are_clipped_by_the_configuration_of_each_network():
    """Trap 9."""
    run = Run(
        tiny_data(), network=tiny_network(), config=dataclasses.replace(CONFIG, gradient_clip=None)
    )
    sgd = dataclasses.replace(CONFIG, optimizer="sgd", momentum=0.0, lr=1.0, gradient_clip=1e-3)
    free, free_optimizer = run.build(config=dataclasses.replace(sgd, gradient_clip=None))
    tight, tight_optimizer = run.build(config=sgd)
    batch = next(run.batches())
    moved = {}
    for name, network, optimizer in (
        ("free", free, free_optimizer), ("tight", tight, tight_optimizer),
    ):  # fmt: skip
        before = [p.detach().clone() for p in network.parameters()]
        run.minimize(F.cross_entropy(network(batch.inputs).logits, batch.target), optimizer)
        steps = [p.detach() - q for p, q in zip(network.parameters(), before, strict=True)]
        moved[name] = torch.cat([step.flatten() for step in steps]).norm().item()
    assert moved["tight"] == pytest.approx(1e-3, rel=1e-3)
    assert moved["free"] > 1e-2


def test_batches_name_the_group_of_each_sample():
    """Trap 11."""
    data = tiny_data()
    unknown = dataclasses.replace(
        data, attributes={"color": torch.where(torch.arange(48) < 5, -1, data.biases)}
    )
    batch = next(Run(unknown, network=tiny_network(), config=CONFIG).batches(48))
    assert unknown.num_groups == 9
    assert (batch.group[:5] == -1).all()
    assert torch.equal(batch.group[5:], 3 * data.targets[5:] + data.biases[5:])


def test_a_method_is_registered_by_its_class_alone(tmp_path, monkeypatch):
    """Trap 12: a new file in the package is enough."""
    from crossbias import methods

    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from crossbias.methods.erm import ERM\n"
        "@dataclass(kw_only=True)\n"
        "class Mine(ERM):\n"
        "    name: ClassVar[str] = 'mine'\n"
        "@dataclass(kw_only=True)\n"
        "class Part(ERM):\n"
        "    name: ClassVar[str] = ''\n"
    )
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    found = methods._found()
    assert set(found) == {*methods.METHODS, "mine"}
    assert next(iter(found)) == "erm"


def test_ensemble_members_and_the_two_networks_of_ie_differ(monkeypatch):
    """What trap 2 did to IE: all of its networks started from the same weights."""
    built = []
    build = Run.build

    def remembered(self, *arguments, **keywords):
        module, optimizer = build(self, *arguments, **keywords)
        if not isinstance(self, Rehearsal):
            built.append(module.body[0].weight.detach().clone())
        return module, optimizer

    monkeypatch.setattr(Run, "build", remembered)
    crossbias.fit(IE(members=2), tiny_data(), network=tiny_network(), config=CONFIG)
    assert len(built) == 4
    assert not any(torch.equal(one, other) for i, one in enumerate(built) for other in built[:i])
