"""Checkpoints are not written after every epoch where writing takes longer than an epoch."""

import json
import os
import signal

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import Diverged, Interrupted
from crossbias.methods import ERM
from crossbias.progress import Progress
from crossbias.train import loop
from crossbias.train.checkpoint import load_checkpoint
from crossbias.train.checkpoint_rhythm import CheckpointRhythm
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=5, batch_size=16, device="cpu")


class Killed(Progress):
    """Ends the process, so to speak, after so many epochs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def end_epoch(self, record) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture
def slow_disk(monkeypatch):
    """Only the first checkpoint of a stage is due."""
    monkeypatch.setattr(CheckpointRhythm, "is_due", lambda rhythm: rhythm._took == 0.0)


@pytest.fixture
def saved(monkeypatch):
    """The epoch and the step of every checkpoint that is written."""
    places, save = [], loop.save_checkpoint

    def remembering(path, content):
        places.append((content["epoch"], content["step"]))
        save(path, content)

    monkeypatch.setattr(loop, "save_checkpoint", remembering)
    return places


def fitted(data, network, folder, **more):
    return crossbias.fit(ERM(), data, network=network, config=CONFIG, folder=folder, **more)


def lines(folder):
    found = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(line["stage"], line["epoch"], line["losses"]) for line in found]


@pytest.mark.parametrize(("took", "passed", "due"), [
    (0.05, 0.0, True), (1.0, 8.9, False), (1.0, 9.1, True), (20.0, 100.0, False),
    (3600.0, 599.0, False), (3600.0, 601.0, True),
])  # fmt: skip
def test_a_checkpoint_rests_nine_times_as_long_as_it_took_and_not_forever(took, passed, due):
    times = iter([0.0, took, took + passed])
    rhythm = CheckpointRhythm(clock=lambda: next(times))
    with rhythm.writing():
        pass
    assert rhythm.is_due() == due


def test_the_first_the_last_and_a_stop_are_always_written(
    data, network, tmp_path, slow_disk, saved, monkeypatch
):
    fitted(data, network, tmp_path / "whole", progress=False)
    assert saved == [(1, 0), (5, 0)]
    saved.clear()
    monkeypatch.setattr(Run, "asked_to_stop", lambda run, step: saved == [(1, 0)] and step == 2)
    with pytest.raises(Interrupted):
        fitted(data, network, tmp_path / "stopped", progress=False)
    assert saved == [(1, 0), (1, 2)]


def test_a_killed_run_goes_on_from_an_old_checkpoint_to_the_same_bits(
    data, network, tmp_path, slow_disk
):
    undisturbed = fitted(data, network, tmp_path / "undisturbed", progress=False)
    killed = tmp_path / "killed"
    with pytest.raises(KeyboardInterrupt):
        fitted(data, network, killed, progress=Killed(after=4))
    assert len(lines(killed)) == 4
    assert load_checkpoint(killed / "checkpoint.pt")["epoch"] == 1
    resumed = fitted(data, network, killed, progress=False, resume=True)
    for name, tensor in undisturbed.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name]), name
    assert lines(killed) == lines(tmp_path / "undisturbed")


def test_a_stop_while_validating_saves_the_epoch(
    data, validation, network, tmp_path, slow_disk, saved, monkeypatch
):
    """Though its checkpoint is not due: the epochs since the last one would be lost."""
    validate, validated = Run.validate, []

    def stopped(run, network):
        validated.append(len(validated))
        if len(validated) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return validate(run, network)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "validate", stopped)
        with pytest.raises(Interrupted, match=r"after epoch 3, stage 'final'; saved; continue"):
            fitted(data, network, tmp_path, validation=validation, progress=False)
    assert saved == [(1, 0), (3, 0)]
    assert [epoch for _, epoch, _ in lines(tmp_path)] == [1, 2, 3]
    fitted(data, network, tmp_path, validation=validation, progress=False, resume=True)
    assert [epoch for _, epoch, _ in lines(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_divergence_names_the_epoch_of_the_checkpoint(
    data, network, tmp_path, slow_disk, monkeypatch
):
    check = loop.Training._check_weights

    def bad(training):
        if training.epoch == 3:
            raise training._diverged("weights went bad")
        check(training)

    monkeypatch.setattr(loop.Training, "_check_weights", bad)
    with pytest.raises(Diverged, match=r"the last good checkpoint, of epoch 1, is .*checkpoint.pt"):
        fitted(data, network, tmp_path, progress=False)


def test_a_stop_that_no_step_heeds_is_heeded_after_the_epoch(data, network, tmp_path, monkeypatch):
    """Several processes agree after every sixteenth step of an epoch, which may be shorter."""
    monkeypatch.setattr(Run, "asked_to_stop", lambda run, step: False)

    class Stopped(Progress):
        def end_epoch(self, record) -> None:
            if record["epoch"] == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="stopped on request after epoch 2, stage 'final'; saved"):
        fitted(data, network, tmp_path, progress=Stopped())
    assert load_checkpoint(tmp_path / "checkpoint.pt")["epoch"] == 2
