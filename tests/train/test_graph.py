"""CUDA graphs: a replayed step is the step."""

import dataclasses
from contextlib import contextmanager

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.methods import METHODS, PGD
from crossbias.progress import Progress
from crossbias.registry import create_method
from crossbias.testing import tiny_data
from crossbias.train.graph import Graphed


class Losses(Progress):
    def __init__(self) -> None:
        self.means: list[dict[str, float]] = []

    def end_epoch(self, record):
        self.means.append(record["losses"])


@pytest.mark.gpu
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
    # A long biased training would let roundings grow until they decide which samples are drawn.
    short = {"pgd": {"biased_epochs": 1}, "denoised": {"inner": PGD(biased_epochs=1)}}
    heard = []
    for graphs in (True, False):
        losses = Losses()
        crossbias.fit(
            create_method(name, **short.get(name, {})), data,
            tiny_data(90, seed=1, split="validation"), network=network, progress=losses,
            config=dataclasses.replace(config, cuda_graphs=graphs),
        )  # fmt: skip
        heard.append(losses.means)
    for with_graphs, without in zip(*heard, strict=True):
        assert with_graphs == pytest.approx(without, rel=1e-2, abs=1e-4)


@pytest.mark.gpu
def test_recording_happens_once_and_other_shapes_run_eagerly():
    calls = []

    def step(inputs, target):
        calls.append(len(inputs))
        return {"loss": inputs.sum() + target.sum()}

    graphed = Graphed(step, "steps", print)
    with torch.cuda.stream(torch.cuda.Stream()):
        for number in range(6):
            inputs = torch.full((4, 2), float(number), device="cuda")
            target = torch.full((4,), number, device="cuda")
            assert graphed(inputs, target)["loss"].item() == 12 * number
        other = torch.ones(3, 2, device="cuda")
        assert graphed(other, target)["loss"].item() == 26
    assert calls == [4, 4, 4, 4, 3]


def test_where_recording_fails_training_goes_on_and_says_so_once(monkeypatch):
    @contextmanager
    def refusing(graph, **options):
        raise RuntimeError("CUDA error: operation not permitted\nlong explanation")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "current_stream", object)
    monkeypatch.setattr(torch.cuda, "graph", refusing)
    notes = []
    graphed = Graphed(lambda inputs: {"loss": inputs.sum()}, "steps", notes.append)
    for number in range(6):
        assert graphed(torch.full((4, 2), float(number)))["loss"].item() == 8 * number
    assert notes == [
        "steps are not replayed as a CUDA graph, which is slower: "
        "CUDA error: operation not permitted"
    ]
