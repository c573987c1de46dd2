"""Stops outside of a training: between stages and while judging. Each says how to go on."""

import os
import signal
from pathlib import Path

import pytest

import crossbias
from crossbias import TrainConfig
from crossbias.errors import Interrupted
from crossbias.experiment import Experiment
from crossbias.methods import PGD
from crossbias.testing import tiny_data, tiny_network
from crossbias.train import fit
from crossbias.train import result as results
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=1, batch_size=16, device="cpu")
EXPERIMENT = Experiment(
    data={"name": "glyphs", "size": 24, "test_size": 12},
    network={"name": "simple-convnet-1"},
    train={"steps": 1, "batch_size": 12, "device": "cpu"},
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_judging_says_how_to_go_on(tmp_path, monkeypatch, number):
    real, handler = results.predict, signal.getsignal(number)

    def stopped(*given, **options):
        os.kill(os.getpid(), number)
        return real(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(results, "predict", stopped)
        with pytest.raises(Interrupted) as caught:
            EXPERIMENT.run(tmp_path / "run")
    assert "while judging the network; the training is saved; continue with: crossbias train " in (
        str(caught.value)
    )
    assert caught.value.exit_code == 130
    assert not (tmp_path / "run" / "done").exists()
    result = EXPERIMENT.run(tmp_path / "run", resume=True)
    assert set(result.metrics) >= {"test"}
    assert signal.getsignal(number) == handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["Result", "alignments_of"])
def test_a_stop_between_training_and_judging_says_how_to_go_on(
    tmp_path, monkeypatch, number, place
):
    real = getattr(fit, place)

    def stopped(*given, **options):
        os.kill(os.getpid(), number)
        return real(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(fit, place, stopped)
        with pytest.raises(Interrupted, match="the training is saved; continue with"):
            EXPERIMENT.run(tmp_path / "run")
    assert set(EXPERIMENT.run(tmp_path / "run", resume=True).metrics) >= {"test"}


def test_a_stop_between_stages_says_how_to_go_on(tmp_path, monkeypatch):
    real = Run.score

    def stopped(run: Run, *given):
        if type(run) is Run:  # not in the rehearsal
            os.kill(os.getpid(), signal.SIGINT)
        return real(run, *given)

    def fitted(folder: Path | None, **more: object) -> crossbias.Result:
        return crossbias.fit(
            PGD(), tiny_data(), network=tiny_network(), config=CONFIG, folder=folder,
            progress=False, **more,
        )  # fmt: skip

    with monkeypatch.context() as patched:
        patched.setattr(Run, "score", stopped)
        with pytest.raises(Interrupted, match="between two trainings; what is finished is saved; "):
            fitted(tmp_path / "run")
        with pytest.raises(Interrupted, match="nothing is saved, since the run has no folder"):
            fitted(None)
    assert fitted(tmp_path / "run", resume=True).network is not None
