"""CUDA graphs: a replayed step is the step."""

import dataclasses

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.methods import METHODS
from crossbias.progress import Progress
from crossbias.registry import create_method
from crossbias.train.graph import GraphedStep
from crossbias.types import Batch

pytestmark = pytest.mark.gpu


class Losses(Progress):
    def __init__(self) -> None:
        self.means: list[dict[str, float]] = []

    def end_epoch(self, record):
        self.means.append(record["losses"])


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "adamp"])
@pytest.mark.parametrize("name", METHODS)
def test_graphs_do_not_change_the_training(name, optimizer, data, network, monkeypatch):
    """Changing learning rates, clipping, dropout and the odd last batch included."""
    # Else two trainings differ in their roundings, and pgd in the samples it draws by them.
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    config = TrainConfig(
        epochs=4, batch_size=10, device="cuda", optimizer=optimizer, lr=0.01, schedule="step",
        decay_epochs=1, gradient_clip=1.0,
    )  # fmt: skip
    heard = []
    for graphs in (True, False):
        losses = Losses()
        crossbias.fit(
            create_method(name), data, network=network, progress=losses,
            config=dataclasses.replace(config, cuda_graphs=graphs),
        )  # fmt: skip
        heard.append(losses.means)
    for with_graphs, without in zip(*heard, strict=True):
        assert with_graphs == pytest.approx(without, rel=1e-2, abs=1e-4)


def test_recording_happens_once_and_other_shapes_run_eagerly():
    calls = []

    def step(batch: Batch):
        calls.append(len(batch.inputs))
        return {"loss": batch.inputs.sum()}

    graphed = GraphedStep(step)
    with torch.cuda.stream(torch.cuda.Stream()):
        for number in range(6):
            inputs = torch.full((4, 2), float(number), device="cuda")
            index = torch.zeros(4, dtype=torch.int64, device="cuda")
            loss = graphed(Batch(inputs, index, index, index, index))["loss"]
            assert loss.item() == 8 * number
        other = torch.ones(3, 2, device="cuda")
        assert graphed(Batch(other, index, index, index, index))["loss"].item() == 6
    assert calls == [4, 4, 4, 4, 3]
