"""Weights and inputs that are not finite, or weights that are absurd: refused, never kept."""

from dataclasses import replace

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError, Diverged
from crossbias.methods import ERM
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.evaluation import predict

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu")


class LastUpdate(ERM):
    """Its losses are fine, but an update of an epoch leaves strange weights behind."""

    def step(self, batch):
        """Spoil the weights after the last step of the chosen epoch."""
        losses = super().step(batch)
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == self.spoiled_step:
            with torch.no_grad():
                self.network.head.weight[0, 0] = self.spoiled_weight
        return losses


def steps_of_an_epoch() -> int:
    return -(-len(tiny_data()) // 16)


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), 1e18, -1e18])
@pytest.mark.parametrize("epoch", [1, 2])
def test_strange_weights_after_the_last_update_of_an_epoch_are_not_kept(tmp_path, weight, epoch):
    method = LastUpdate()
    method.spoiled_step, method.spoiled_weight = epoch * steps_of_an_epoch(), weight
    with pytest.raises(Diverged) as caught:
        crossbias.fit(
            method, tiny_data(), tiny_data(30, seed=1, split="validation"), network=tiny_network(),
            config=CONFIG, folder=tmp_path / "run", progress=False,
        )  # fmt: skip
    message = str(caught.value)
    assert f"weights of head.weight reach {abs(weight):g} after epoch {epoch}" in message
    assert "try a lower lr or gradient_clip" in message
    kept = tmp_path / "run" / "checkpoint.pt"
    assert kept.exists() == (epoch == 2)
    if kept.exists():
        saved = torch.load(kept, weights_only=True)
        assert saved["epoch"] == 1
        assert saved["state"]["network"]["head.weight"].abs().max() < 100
    assert not (tmp_path / "run" / "model.safetensors").exists()


def vectors(split: str = "train", bad: float | None = None, row: int = 7):
    draw = torch.Generator().manual_seed(0)
    data = replace(
        tiny_data(30, split=split), inputs=torch.randn(30, 4, generator=draw), mean=(), std=()
    )
    if bad is not None:
        data.inputs[row, 2] = bad
    return data


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_inputs_that_are_not_finite_are_refused_with_their_row(tmp_path, split, bad):
    parts = {name: vectors(name) for name in ("train", "validation")}
    given = vectors(split, bad)
    message = rf"tiny {split}: sample 7 has an input that is not finite \({bad}\)"
    if split == "test":
        result = crossbias.fit(
            ERM(), parts["train"], network="mlp", config=CONFIG, progress=False
        )  # fmt: skip
        with pytest.raises(CrossbiasError, match=message):
            result.evaluate(given)
        return
    parts[split] = given
    with pytest.raises(CrossbiasError, match=message):
        crossbias.fit(
            ERM(), *parts.values(), network="mlp", config=CONFIG, folder=tmp_path / "run",
            progress=False,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_answers_that_are_not_finite_are_refused():
    network = tiny_network()
    with torch.no_grad():
        network.head.weight.fill_(float("nan"))
    with pytest.raises(CrossbiasError, match=r"the network's answer to sample 0 of tiny .* finite"):
        predict(network, tiny_data(30, split="test"))
