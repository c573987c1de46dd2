"""The engine: what is trained, chosen, kept, stopped and refused."""

import dataclasses
import json
import math

import pytest
import torch
from torch import nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.errors import CrossbiasError, Diverged
from crossbias.methods import ERM, PGD, EnD, Method, ReBias
from crossbias.train.evaluation import predict
from crossbias.train.meter import Pace
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=3, batch_size=16, device="cpu", lr=0.01)


def weights(method, data, network, config=CONFIG, **more):
    """Weights after a training that starts from those of the network."""
    options = {"network": network, "config": config, "fresh": False}
    return crossbias.fit(method, data, **options, **more).network.state_dict()


def same(one, other) -> bool:
    return all(torch.equal(one[key], other[key]) for key in one)


def test_training_equals_a_loop_written_by_hand(data):
    """No engine between the lines: same batches, same updates, the same numbers."""
    from crossbias.data.order import batches, epoch_order
    from crossbias.seeds import seed_for

    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 16), nn.ReLU(), nn.Linear(16, 3))
    network = crossbias.as_network(model)
    config = dataclasses.replace(CONFIG, optimizer="sgd", schedule="step", decay_epochs=2)
    trained = weights(ERM(), data, network, config)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(3):
        optimizer.param_groups[0]["lr"] = 0.01 if epoch < 2 else 0.001
        order = epoch_order(len(data), epoch, seed_for(0, "final"))
        for positions in batches(order, 16):
            inputs = (data.inputs[positions].float() / 255 - 0.5) / 0.5
            loss = nn.functional.cross_entropy(model(inputs), data.targets[positions])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for ours, theirs in zip(trained.values(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_optimizers_are_torchs_own(optimizer, data):
    torch.manual_seed(0)
    network = Network(nn.Flatten(), nn.Linear(108, 3))
    config = TrainConfig(
        steps=2, batch_size=48, device="cpu", optimizer=optimizer, lr=0.01, weight_decay=0.1
    )
    trained = weights(ERM(), data, network, config)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    extra = {"momentum": 0.9} if optimizer == "sgd" else {}
    reference = kinds[optimizer](network.parameters(), lr=0.01, weight_decay=0.1, **extra)
    inputs = (data.inputs.float() / 255 - 0.5) / 0.5
    for _ in range(2):
        reference.zero_grad()
        nn.functional.cross_entropy(network(inputs).logits, data.targets).backward()
        reference.step()
    torch.testing.assert_close(trained["head.weight"], network.head.weight.detach())


def test_steps_end_the_training_in_mid_epoch(data, network, tmp_path):
    config = TrainConfig(steps=7, batch_size=16, device="cpu")
    crossbias.fit(ERM(), data, network=network, config=config, folder=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [3, 6, 7]


def test_samples_a_second_are_those_of_the_steps():
    now = 100.0
    pace = Pace(seconds=2.0, samples=64, clock=lambda: now)  # resumed
    now = 110.0
    pace.start()  # 10 s of preparations do not count
    now, pace.samples = 114.0, pace.samples + 56
    assert (pace.seconds, pace.rate) == (6.0, 20.0)


@pytest.mark.parametrize("batch_size", [16, 20, 256])
def test_a_smaller_last_batch_counts_as_what_it_is(batch_size, data, network, monkeypatch):
    counted = []

    class Kept(Pace):
        @property
        def rate(self):
            counted.append(self.samples)
            return super().rate

    monkeypatch.setattr("crossbias.train.loop.Pace", Kept)
    config = dataclasses.replace(CONFIG, epochs=2, batch_size=batch_size)
    crossbias.fit(ERM(), data, network=network, config=config)
    assert counted == [len(data)] * 2


def test_a_stage_may_be_a_number_of_steps_long(data, network, monkeypatch):
    """Whatever the configured length is; 48 samples in batches of 16 are 3 steps an epoch."""
    taken = []
    monkeypatch.setattr(Run, "asked_to_stop", lambda self, step: bool(taken.append(step)))
    for config in (CONFIG, dataclasses.replace(CONFIG, steps=2)):
        taken.clear()
        Run(data, network=network, config=config).train(ERM(), name="brief", steps=4)
        assert taken == [1, 2, 3, 1]


def test_a_run_knows_how_many_steps_its_training_has(data, network):
    assert Run(data, network=network, config=CONFIG).steps == 9
    assert Run(data.subset(data.targets != 0), network=network, config=CONFIG).steps == 6
    assert Run(data, network=network, config=dataclasses.replace(CONFIG, steps=7)).steps == 7


def test_a_preview_is_a_fresh_networks_output_and_changes_nothing(data, network):
    state = torch.get_rng_state()
    run = Run(data, network=network, config=CONFIG, fresh=False)
    output = run.preview()
    assert torch.equal(state, torch.get_rng_state())
    images = (data.inputs[:16].float() / 255 - 0.5) / 0.5
    torch.testing.assert_close(output.logits, network.eval()(images).logits)
    assert Run(data, network=crossbias.Recipe("convnet"), config=CONFIG).preview().maps.ndim == 4
    assert not run.optimizers


def test_gradients_are_clipped(data, network):
    """With plain SGD the first update is at most lr times the limit."""
    config = TrainConfig(
        steps=1, batch_size=48, device="cpu", optimizer="sgd", momentum=0.0, lr=1.0,
        gradient_clip=1e-3,
    )  # fmt: skip
    trained = weights(ERM(), data, network, config)
    moved = sum(
        (trained[key] - value).square().sum() for key, value in network.named_parameters()
    ).sqrt()
    assert moved.item() == pytest.approx(1e-3, rel=1e-3)


def test_a_network_may_have_its_own_optimizer_and_schedule(data, network):
    run = Run(data, network=network, config=CONFIG)
    _, ours = run.build()
    _, theirs = run.build(config=dataclasses.replace(CONFIG, optimizer="sgd", lr=0.5))
    assert isinstance(ours, torch.optim.Adam)
    assert isinstance(theirs, torch.optim.SGD)
    assert [config.lr for _, config in run.optimizers] == [0.01, 0.5]


def test_networks_built_from_a_recipe_start_differently_and_again_the_same(data):
    runs = [Run(data, network=crossbias.Recipe("convnet"), config=CONFIG) for _ in range(2)]
    (first, second), (again, _) = ([run.build()[0] for _ in range(2)] for run in runs)
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, second.head.weight)


def test_workers_and_memory_limits_do_not_change_the_result(data, network):
    config = dataclasses.replace(CONFIG, augment=("flip", "crop"))
    fed = dataclasses.replace(config, resident_bytes=0, workers=2)
    assert same(weights(ERM(), data, network, config), weights(ERM(), data, network, fed))


def test_augmentation_changes_training_and_not_evaluation(data, network, validation):
    config = dataclasses.replace(CONFIG, augment=("flip",))
    assert not same(weights(ERM(), data, network), weights(ERM(), data, network, config))
    result = crossbias.fit(ERM(), data, validation, network=network, config=config)
    assert crossbias.evaluate(result.network, validation) == result.metrics["validation"]


def test_the_datas_own_augmentation_is_used_unless_another_is_named(data, network):
    own = dataclasses.replace(data, augment=("flip",))
    named = dataclasses.replace(CONFIG, augment=("flip",))
    none = dataclasses.replace(CONFIG, augment=())
    assert same(weights(ERM(), own, network), weights(ERM(), data, network, named))
    assert same(weights(ERM(), own, network, none), weights(ERM(), data, network))


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        ("last", 4),
        ("validation-accuracy", 2),
        ("validation-loss", 3),
        ("validation-worst-group", 1),
    ],
)
def test_the_selection_rule_picks_the_epoch_it_names(
    selection, chosen, data, network, validation, monkeypatch
):
    scores = iter(
        [
            {"accuracy": 0.1, "class_averaged": 0.1, "worst_group": 0.9, "cross_entropy": math.nan},
            {"accuracy": 0.8, "class_averaged": 0.8, "worst_group": 0.2, "cross_entropy": 0.6},
            {"accuracy": 0.7, "class_averaged": 0.7, "worst_group": 0.3, "cross_entropy": 0.5},
            {"accuracy": 0.6, "class_averaged": 0.6, "worst_group": 0.4, "cross_entropy": 0.7},
        ]
    )
    seen = []

    def validate(self, network):
        seen.append({key: value.clone() for key, value in network.state_dict().items()})
        return next(scores)

    monkeypatch.setattr(Run, "validate", validate)
    config = dataclasses.replace(CONFIG, selection=selection, epochs=4)
    result = crossbias.fit(ERM(), data, validation, network=network, config=config)
    assert same(result.network.state_dict(), seen[chosen - 1])


def test_the_validation_loss_is_the_mean_cross_entropy(data, network, validation, tmp_path):
    """Over all samples, with a last batch that is smaller than the others."""
    config = dataclasses.replace(CONFIG, batch_size=32, selection="validation-loss")
    assert len(validation) % 32
    folder = tmp_path / "run"
    result = crossbias.fit(ERM(), data, validation, network=network, config=config, folder=folder)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    found = min(line["validation"]["cross_entropy"] for line in lines)
    right = predict(result.network, validation).probabilities[
        torch.arange(len(validation)), validation.targets
    ]
    assert found == pytest.approx(float(-right.log().mean()), rel=1e-5)


def test_selection_concerns_the_final_network_only(data, network, validation):
    """The biased network of a pipeline is its last one whatever the rule."""
    config = dataclasses.replace(CONFIG, selection="validation-worst-group")
    result = crossbias.fit(PGD(), data, validation, network=network, config=config)
    assert result.config["selection"] == "validation-worst-group"


@pytest.mark.parametrize(
    ("selection", "change", "message"),
    [
        ("validation-accuracy", "none", "needs validation data"),
        ("validation-worst-group", "unlabeled", "needs bias labels in the validation data"),
    ],
)
def test_selection_without_what_it_needs_is_refused(
    selection, change, message, data, network, validation
):
    config = dataclasses.replace(CONFIG, selection=selection)
    judged = None if change == "none" else validation.with_bias(None)
    with pytest.raises(CrossbiasError, match=message):
        crossbias.fit(ERM(), data, judged, network=network, config=config)


def test_validation_is_made_at_the_interval_and_at_the_end(data, network, validation, tmp_path):
    config = dataclasses.replace(CONFIG, epochs=5, validation_interval=2)
    crossbias.fit(ERM(), data, validation, network=network, config=config, folder=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [line["validation"] is not None for line in lines] == [False, True, False, True, True]


class Exploding(Method):
    """A loss that is not a number from its fifth step on."""

    def setup(self, run):
        super().setup(run)
        self.count = torch.zeros(())

    def loss(self, batch):
        self.count += 1
        factor = torch.where(self.count >= 5, torch.nan, 1.0)
        task = self.network(batch.inputs).logits.square().mean()
        return {"loss": task * factor, "task": task}

    def state(self):
        return super().state() | {"count": self.count}


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    data, network, tmp_path
):
    folder = tmp_path / "run"
    with pytest.raises(Diverged) as caught:
        crossbias.fit(Exploding(), data, network=network, config=CONFIG, folder=folder)
    message = str(caught.value)
    assert "Exploding() diverged" in message
    assert "step 2 of epoch 2" in message
    assert "loss nan, task 0." in message
    assert str(folder / "checkpoint.pt") in message
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert saved["epoch"] == 1
    assert all(value.isfinite().all() for value in saved["state"]["network"].values())
    assert not (folder / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("method", "batch_size", "message"),
    [
        (ERM(), 1, "batch_size 1 is too small: batch normalization needs at least 2"),
        (ReBias(), 3, r"batch_size 3 is too small: ReBias\(.*\) needs at least 4"),
    ],
)
def test_batches_too_small_for_the_method_or_its_network_are_refused(
    method, batch_size, message, data, network, tmp_path
):
    config = dataclasses.replace(CONFIG, batch_size=batch_size)
    folder = tmp_path / "run"
    with pytest.raises(CrossbiasError, match=message):
        crossbias.fit(method, data, network=network, config=config, folder=folder)
    assert not folder.exists(), "a refused run leaves nothing behind"


def test_a_rest_too_small_for_the_method_joins_the_batch_before_it(data, network):
    """48 = 3 * 15 + 3: HSIC needs four samples, batch normalization two."""
    config = dataclasses.replace(CONFIG, batch_size=15)
    for method in (ReBias(), ERM()):
        assert all(v.isfinite().all() for v in weights(method, data, network, config).values())
    one_left = data.subset(torch.arange(46))
    assert all(v.isfinite().all() for v in weights(ERM(), one_left, network, config).values())


def test_hyperparameters_are_checked_also_without_the_registry(data, network):
    with pytest.raises(CrossbiasError, match="alpha of EnD must be at least 0"):
        crossbias.fit(EnD(alpha=-1.0), data, network=network, config=CONFIG)


def test_validation_of_other_classes_is_refused(data, network, validation):
    other = dataclasses.replace(validation, classes=("a", "b", "c"))
    with pytest.raises(CrossbiasError, match="validation data has classes a, b, c"):
        crossbias.fit(ERM(), data, other, network=network, config=CONFIG)


def test_a_mask_and_weights_choose_the_rows_that_are_trained_on(data, network):
    """Rows outside the mask may hold anything: the result is the same."""
    keep = data.targets != 1
    spoiled = data.inputs.clone()
    spoiled[~keep] = 255
    other = dataclasses.replace(data, inputs=spoiled)

    class Masked(ERM):
        def __init__(self, *, real: bool) -> None:
            self.real = real

        def fit(self, run):
            return run.train(ERM(), weights=keep.float() if self.real else keep)

    for method in (Masked(real=False), Masked(real=True)):
        assert same(weights(method, data, network), weights(method, other, network))


def test_scores_stand_at_the_rows_of_the_full_set(data, network):
    run = Run(data.subset(torch.tensor([7, 3])), network=network, config=CONFIG)
    network.train()
    scores = run.score(network, lambda batch, output: batch.index + 0.5)
    assert scores.shape == (48,)
    assert scores.nonzero().squeeze(1).tolist() == [3, 7]
    assert scores[[3, 7]].tolist() == [3.5, 7.5]
    assert network.training, "the mode is restored"


@pytest.mark.slow
def test_a_compiled_network_trains_like_an_eager_one(data, network):
    network.body[3].p = 0.0  # compiled dropout draws other numbers
    eager = dataclasses.replace(CONFIG, optimizer="sgd")  # Adam blows up rounding of zero gradients
    compiled = dataclasses.replace(eager, compile=True)
    for key, value in weights(ERM(), data, network, compiled).items():
        expected = weights(ERM(), data, network, eager)[key]
        torch.testing.assert_close(value, expected, rtol=1e-3, atol=1e-4)
