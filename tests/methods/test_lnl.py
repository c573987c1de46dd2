"""LNL: two updates a batch, each the one eq. 9 asks for."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from crossbias import Network, TrainConfig
from crossbias.errors import CrossbiasError
from crossbias.functional import color_levels
from crossbias.methods import ERM, LNL
from crossbias.testing import contract
from crossbias.train.run import Run

OTHER_VALUES = {
    "target": "color",
    "layer": "body.0",
    "unlearn": "confusion",
    "lambda_f": 0.5,
    "mu": 0.0,
    "from_biased": False,
    "biased_epochs": 1,
    "lr_factor": 0.5,
}


@pytest.mark.parametrize("rule", contract(LNL, other_values=OTHER_VALUES), ids=str)
def test_contract(rule):
    rule.check()


CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu", lr=0.01)
SGD = TrainConfig(
    batch_size=24, device="cpu", optimizer="sgd", momentum=0.9, weight_decay=0.01, lr=0.1
)


def cut_network() -> Network:
    """f is a convolution, g another one and the head."""
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 5, 3), nn.Tanh()]
    return Network(nn.Sequential(*layers), nn.Linear(5, 3))


def prepared(data, network=None, config=SGD, **keywords) -> LNL:
    method = LNL(from_biased=False, **keywords)
    method.setup(Run(data, network=network or cut_network(), config=config, fresh=False))
    return method


def two_batches(method: LNL) -> list:
    return list(method.loader.batches([torch.arange(24), torch.arange(24, 48)]))


class Released:
    """The authors' loop written out, with gradients that are zeroed and not forgotten."""

    def __init__(self, method: LNL) -> None:
        self.method = method
        network = copy.deepcopy(method.network.module)
        self.f, self.g, self.head = network.body[:2], network.body[2:], network.head
        self.h = copy.deepcopy(method.bias_network.module)
        options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
        fg = [*self.f.parameters(), *self.g.parameters(), *self.head.parameters()]
        self.fg_optimizer = torch.optim.SGD(fg, **options)
        self.h_optimizer = torch.optim.SGD(self.h.parameters(), **options)
        for parameter in (*fg, *self.h.parameters()):
            parameter.grad = torch.zeros_like(parameter)

    def step(self, batch) -> None:
        features = self.f(batch.inputs)
        logits = self.head(self.g(features).mean((2, 3)))
        loss = F.cross_entropy(logits, batch.target)
        loss = loss + self.method.lambda_f * self.unlearned(self.predictions(features))
        self.zero()
        loss.backward()
        self.fg_optimizer.step()  # what h got is thrown away

        self.zero()
        features = self.f(batch.inputs)
        seen = features.detach().requires_grad_()
        self.bias_loss(self.predictions(seen), batch).backward()
        if self.method.mu:
            features.backward(-self.method.mu * seen.grad)
            self.fg_optimizer.step()  # g too: its gradient is zero, its momentum is not
        self.h_optimizer.step()

    def zero(self) -> None:
        for optimizer in (self.fg_optimizer, self.h_optimizer):
            optimizer.zero_grad(set_to_none=False)

    def predictions(self, features: Tensor) -> list[Tensor]:
        """Scores (B, K, ...) of each color channel, or of the one label."""
        scores = self.h(features)
        return [scores] if self.method.target == "labels" else list(scores.unbind(2))

    def unlearned(self, predictions: list[Tensor]) -> Tensor:
        total = 0.0
        for scores in predictions:
            p = scores.softmax(1)
            if self.method.unlearn == "entropy":
                total = total + (p * p.log()).sum(1).mean()
            else:
                total = total - p.log().mean()
        return total / len(predictions)

    def bias_loss(self, predictions: list[Tensor], batch) -> Tensor:
        if self.method.target == "labels":
            return F.cross_entropy(predictions[0], batch.bias)
        levels = color_levels(batch.inputs, mean=0.5, std=0.5, size=6)
        each = [
            F.cross_entropy(scores, levels[:, channel], ignore_index=-100)
            for channel, scores in enumerate(predictions)
        ]
        return torch.stack(each).sum()


@pytest.mark.parametrize("target", ["labels", "color"])
@pytest.mark.parametrize(
    "keywords",
    [
        {"lambda_f": 0.7, "mu": 0.3},  # ours
        {"lambda_f": 0.7, "mu": 0.0},  # ours-adv
        {"lambda_f": 0.0, "mu": 0.3},  # GRL
        {"lambda_f": 0.7, "mu": 0.0, "unlearn": "confusion"},  # BlindEye
        {"lambda_f": 0.7, "mu": 0.3, "unlearn": "confusion"},  # BlindEye + GRL
    ],
    ids=["ours", "ours-adv", "grl", "blindeye", "blindeye-grl"],
)
def test_two_batches_are_the_released_loop_written_out(target, keywords, data):
    method = prepared(data, target=target, **keywords)
    twin = Released(method)
    for batch in two_batches(method):
        method.step(batch)
        twin.step(batch)
    ours = method.network.module
    pairs = [(ours.body[:2], twin.f), (ours.body[2:], twin.g), (ours.head, twin.head)]
    for one, other in [*pairs, (method.bias_network.module, twin.h)]:
        for actual, expected in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def test_the_first_update_leaves_h_and_the_second_leaves_g(data):
    """Without momentum and decay a gradient of zero moves nothing."""
    config = dataclasses.replace(SGD, momentum=0.0, weight_decay=0.0)
    method = prepared(data, config=config, lambda_f=1.0)
    batch = two_batches(method)[0]
    network, h = method.network.module, method.bias_network.module

    def copies(module: nn.Module) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in module.parameters()]

    before = copies(h)
    method._step_task(batch)
    assert all(map(torch.equal, before, copies(h)))
    f, g, head = copies(network.body[0]), copies(network.body[2]), copies(network.head)
    method._step_bias(batch)
    assert not any(map(torch.equal, before, copies(h)))
    assert not any(map(torch.equal, f, copies(network.body[0])))
    assert all(map(torch.equal, g + head, copies(network.body[2]) + copies(network.head)))


def test_without_strength_it_is_plain_training(data, network):
    method = LNL(lambda_f=0.0, mu=0.0, from_biased=False)
    quiet = Network(network.body[:3], network.head)  # without dropout
    plain = crossbias.fit(ERM(), data, network=quiet, config=CONFIG).network
    ours = crossbias.fit(method, data, network=quiet, config=CONFIG).network
    for (key, value), other in zip(plain.named_parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(other, value, rtol=1e-4, atol=1e-6, msg=key)


def test_it_starts_from_a_biased_network_at_a_tenth_of_the_learning_rate(
    data, network, monkeypatch, tmp_path
):
    starts = []
    setup = LNL.setup

    def remembered(self, run):
        setup(self, run)
        starts.append({key: value.clone() for key, value in self.network.state_dict().items()})

    monkeypatch.setattr(LNL, "setup", remembered)
    method = LNL(biased_epochs=3)
    crossbias.fit(method, data, network=network, config=CONFIG, folder=tmp_path / "run")
    longer = dataclasses.replace(CONFIG, epochs=3)
    run = Run(data, network=network, config=longer)
    biased = run.train(ERM(), name="biased").state_dict()
    # The first is that of the rehearsal.
    assert all(torch.equal(starts[1][key], value) for key, value in biased.items())
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert log.count('"stage": "biased"') == 3
    assert log.count('"lr": 0.01,') == 3
    assert log.count('"lr": 0.001,') == 2


@pytest.mark.parametrize("target", ["labels", "color"])
def test_samples_of_which_nothing_is_known_teach_h_nothing(target, data):
    """Black images have no color, and unknown labels none: no loss, no change of h, no NaN."""
    biases = torch.cat([data.biases[:24], torch.full((24,), -1)])
    images = torch.cat([data.inputs[:24], torch.zeros_like(data.inputs[24:])])
    known = dataclasses.replace(data, inputs=images, attributes={"color": biases})
    config = dataclasses.replace(SGD, momentum=0.0, weight_decay=0.0)
    method = prepared(known, config=config, target=target)
    before = [parameter.detach().clone() for parameter in method.bias_network.parameters()]
    losses = method.step(two_batches(method)[1])
    assert losses["bias"] == 0
    assert all(value.isfinite() for value in losses.values())
    after = list(method.bias_network.parameters())
    assert all(map(torch.equal, before, after))


@pytest.mark.parametrize("target", ["labels", "color"])
def test_a_named_layer_works_in_bf16(target, data):
    config = dataclasses.replace(CONFIG, precision="bf16")
    method = LNL(target=target, layer="body.1")
    result = crossbias.fit(method, data, network=cut_network(), config=config)
    assert all(value.isfinite().all() for value in result.network.state_dict().values())
    assert result.network.tapped_layer == ""


def test_supervision_is_what_the_target_needs(data, network, tmp_path):
    assert LNL().supervision == "bias labels"
    method = LNL(target="color")
    assert method.supervision == "kind of bias"
    unlabeled = data.with_bias(None)
    crossbias.fit(method, unlabeled, network=network, config=CONFIG, folder=tmp_path / "run")
    assert '"supervision": "kind of bias"' in (tmp_path / "run" / "config.json").read_text()


def stages(folder) -> list[str]:
    """What a run left of the biased training that would have come first."""
    return [path.name for path in (folder / "stages").glob("*")]


def test_a_single_bias_value_is_refused(data, network, tmp_path):
    single = dataclasses.replace(data, attributes={"color": torch.ones(48, dtype=torch.int64)})
    with pytest.raises(CrossbiasError, match="attribute 'color' of tiny has only one value"):
        crossbias.fit(LNL(), single, network=network, config=CONFIG, folder=tmp_path)
    assert stages(tmp_path) == []


def test_a_layer_that_is_not_there_is_refused(data, network, tmp_path):
    method = LNL(layer="body.9")
    with pytest.raises(CrossbiasError, match=r"no layer 'body\.9'"):
        crossbias.fit(method, data, network=network, config=CONFIG, folder=tmp_path)
    assert stages(tmp_path) == []


def test_a_layer_without_maps_is_refused_for_colors(data, tmp_path):
    body = nn.Sequential(nn.Flatten(), nn.Linear(108, 8))
    flat = Network(body, nn.Linear(8, 3))
    vectors = dataclasses.replace(data, inputs=torch.rand(48, 108), mean=(0.0,), std=(1.0,))
    method = LNL(target="color")
    with pytest.raises(CrossbiasError, match=r"gives \(8,\); name a layer that gives square maps"):
        crossbias.fit(method, data, network=flat, config=CONFIG, folder=tmp_path)
    with pytest.raises(CrossbiasError, match=r"tiny has inputs \(108,\)"):
        crossbias.fit(method, vectors, network=flat, config=CONFIG, folder=tmp_path)
    assert stages(tmp_path) == []


def test_a_layer_of_tokens_is_refused_for_labels(data, tmp_path):
    body = nn.Sequential(nn.Flatten(2), nn.Flatten(), nn.Linear(108, 8))
    tokens = Network(body, nn.Linear(8, 3))
    with pytest.raises(CrossbiasError, match=r"gives \(3, 36\)"):
        crossbias.fit(LNL(layer="body.0"), data, network=tokens, config=CONFIG, folder=tmp_path)
    assert stages(tmp_path) == []


def test_black_images_alone_can_be_trained_on(data, network):
    black = dataclasses.replace(data, inputs=torch.zeros_like(data.inputs))
    result = crossbias.fit(LNL(target="color"), black, network=network, config=CONFIG)
    assert all(value.isfinite().all() for value in result.network.state_dict().values())
