"""Batches that are computed in parts: the update of the whole batch, or a refusal."""

from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F

import crossbias
from crossbias import CrossbiasError, TrainConfig
from crossbias.methods import ERM, METHODS
from crossbias.methods.erm import BiasedERM, WeightedERM
from crossbias.networks import Recipe
from crossbias.testing import tiny_data
from crossbias.train.accumulation import StepInParts
from crossbias.train.run import Run

ALLOWED = {
    *("erm", "class-balanced", "group-balanced", "jtt", "pgd", "aflite", "dfr", "denoised"),
}
SOLVED = ("aflite", "dfr")  # their last layers are as exact as a solver that stops
CONFIG = TrainConfig(epochs=2, batch_size=20, device="cpu", optimizer="sgd", lr=0.01)


def weights_after(name: str, **settings: object) -> dict[str, torch.Tensor]:
    """48 samples in batches of 20, 20 and 8; the network has no statistics of a batch."""
    data, validation = tiny_data(), tiny_data(90, seed=1, split="validation")
    result = crossbias.fit(
        crossbias.create(name), data, validation, network="mlp",
        config=replace(CONFIG, **settings), progress=False,
    )  # fmt: skip
    return result.network.state_dict()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_a_method_ends_as_with_whole_batches_or_refuses(name):
    if name not in ALLOWED:
        with pytest.raises(CrossbiasError, match=r"cannot accumulate: .* leave accumulate out, or"):
            weights_after(name, accumulate=3)
        return
    expected, found = weights_after(name), weights_after(name, accumulate=3)
    relative, absolute = (1e-3, 2e-3) if name in SOLVED else (0, 2e-5)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=relative, atol=absolute)


@pytest.mark.parametrize("parts", [2, 3, 50])
@pytest.mark.parametrize(
    "method", [ERM(), BiasedERM(q=0.7), WeightedERM(weights=torch.linspace(0.1, 3, 48))]
)
def test_losses_and_gradients_are_those_of_the_batch(method, parts):
    """With SGD, a rate of 1 and no momentum, the weights move by the gradient."""
    data, found = tiny_data(), []
    config = replace(CONFIG, lr=1.0, momentum=0.0)
    torch.set_default_dtype(torch.float64)
    try:
        for in_parts in (False, True):
            method.setup(Run(data, network=Recipe("mlp"), config=config))
            (batch,) = method.run.loader(data).batches([torch.arange(20)])
            batch = batch._replace(inputs=batch.inputs.double())
            step = StepInParts(method, parts) if in_parts else method.step
            if in_parts:
                step.total = 20
            losses = step(batch)
            found.append({**losses, **method.network.state_dict()})
    finally:
        torch.set_default_dtype(torch.float32)
    assert found[0].keys() == found[1].keys()
    for key, value in found[0].items():
        assert value.dtype == torch.float64
        tolerance = 1e-6 if isinstance(method, WeightedERM) else 1e-12  # whose weights are float32
        torch.testing.assert_close(found[1][key], value, rtol=0, atol=tolerance)


@dataclass(kw_only=True)
class OfPairs(ERM):
    """A loss of its own, about which nothing is declared."""

    def loss(self, batch):
        logits = self.network(batch.inputs).logits
        return {"loss": F.cross_entropy(logits, batch.target) + logits.std()}


@pytest.mark.parametrize("method", [OfPairs(), crossbias.create("denoised", inner=OfPairs())])
def test_a_method_with_a_loss_of_its_own_must_declare_it(data, method):
    with pytest.raises(CrossbiasError, match="OfPairs cannot accumulate"):
        crossbias.fit(method, data, network="mlp", config=replace(CONFIG, accumulate=2))


def test_every_part_has_enough_samples_for_batch_normalization(network):
    """Of 51 samples in batches of 16 the last three join, since two parts need two each."""
    config = replace(CONFIG, batch_size=16, accumulate=2, epochs=1)
    run = crossbias.fit(ERM(), tiny_data(51), network=network, config=config, progress=False)
    assert run.network is not None
    with pytest.raises(CrossbiasError, match="batch normalization needs at least 18"):
        crossbias.fit(
            ERM(), tiny_data(51), network=network, config=replace(config, accumulate=9),
            progress=False,
        )  # fmt: skip
