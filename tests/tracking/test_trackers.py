"""What a run tells its trackers, and that a tracker which fails or hangs changes nothing."""

import json
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

import crossbias
from crossbias import CrossbiasError, TrainConfig
from crossbias.cli.commands import app
from crossbias.errors import Interrupted
from crossbias.experiment import Experiment
from crossbias.methods import ERM
from crossbias.progress import Progress
from crossbias.testing import tiny_data, tiny_network
from crossbias.tracking import TRACKERS, Started, trackers
from crossbias.train.loop import Training
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=3, batch_size=16, device="cpu")


class Heard(Progress):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)

    @property
    def warnings(self) -> list[str]:
        return [note for note in self.notes if "goes on without it" in note]


class Recorder:
    """A tracker that remembers its calls, and fails or hangs at the one that is named."""

    calls: list[tuple]
    failing, hanging = "", ""
    free = threading.Event()

    def __init__(self, title, folder) -> None:
        self._call("init", title)

    def start(self, config, known):
        self._call("start", config["method"]["name"], known)
        return Started("run 7", "the recorder")

    def stage(self, name):
        self._call("stage", name)

    def epoch(self, record, before):
        self._call("epoch", record["stage"], record["epoch"], before)

    def results(self, split, numbers):
        self._call("results", split, sorted(numbers)[0])

    def end(self, outcome, reason):
        self._call("end", outcome, reason[:7])

    def _call(self, *call) -> None:
        self.calls.append(call)
        if call[0] == self.failing:
            raise OSError(28, "No space left on device")
        if call[0] == self.hanging:
            self.free.wait()


@pytest.fixture
def recorder(monkeypatch):
    """The recorder stands in for mlflow."""
    kind = type("Kind", (Recorder,), {"calls": [], "free": threading.Event()})
    monkeypatch.setitem(sys.modules, "recording", SimpleNamespace(Recorder=kind))
    monkeypatch.setitem(TRACKERS, "mlflow", "recording:Recorder")
    yield kind
    kind.free.set()


def fitted(folder, heard: Progress | None = None, **more) -> crossbias.Result:
    return crossbias.fit(
        ERM(), tiny_data(), tiny_data(30, seed=1, split="validation"), network=tiny_network(),
        config=CONFIG, folder=folder, progress=heard or Heard(), **{"log": ["mlflow"]} | more,
    )  # fmt: skip


def stopped(folder, monkeypatch, *, epoch: int, **more) -> None:
    asked = []

    def wanted(run: Run, step: int) -> bool:
        asked.append(step)
        return len(asked) == 3 * (epoch - 1) + 1

    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", wanted)
        with pytest.raises(Interrupted):
            fitted(folder, **more)


def epochs(recorder) -> list[tuple[int, int]]:
    return [call[2:] for call in recorder.calls if call[0] == "epoch"]


def same_weights(one: crossbias.Result, other: crossbias.Result) -> bool:
    states = one.network.state_dict(), other.network.state_dict()
    return all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_a_run_tells_start_stages_epochs_results_and_end(tmp_path, recorder):
    result = fitted(tmp_path / "run")
    assert recorder.calls == [
        ("init", "run"),
        ("start", "erm", None),
        ("stage", "final"),
        *[("epoch", "final", number + 1, number) for number in range(3)],
        ("results", "validation", "aligned"),
        ("end", "finished", ""),
    ]
    recorder.calls.clear()
    result.evaluate(tiny_data(seed=2, split="test"))
    assert recorder.calls == [
        ("init", "run"),
        ("start", "erm", "run 7"),
        ("results", "test", "aligned"),
        ("end", "finished", ""),
    ]


def test_a_run_without_a_folder_is_logged_too(recorder):
    fitted(None)
    assert recorder.calls[0] == ("init", "erm")
    assert [number for number, _ in epochs(recorder)] == [1, 2, 3]


def test_a_resume_continues_the_trackers_run_without_naming_it(tmp_path, recorder, monkeypatch):
    stopped(tmp_path / "run", monkeypatch, epoch=2)
    assert recorder.calls[-1] == ("end", "stopped", "stopped")
    fitted(tmp_path / "run", resume=True, log=())
    assert [call for call in recorder.calls if call[0] == "start"] == [
        ("start", "erm", None),
        ("start", "erm", "run 7"),
    ]
    assert epochs(recorder) == [(1, 0), (2, 1), (3, 2)]
    assert [call for call in recorder.calls if call[0] == "stage"] == [("stage", "final")]


def test_a_tracker_that_joins_at_a_resume_gets_the_epochs_before(tmp_path, recorder, monkeypatch):
    stopped(tmp_path / "run", monkeypatch, epoch=3, log=())
    assert recorder.calls == []
    fitted(tmp_path / "run", resume=True)
    assert epochs(recorder) == [(1, 0), (2, 1), (3, 2)]


def test_an_epoch_that_is_trained_again_is_told_once(tmp_path, recorder, monkeypatch):
    """Killed after the record and before the checkpoint: the checkpoint of the stop comes back."""
    stopped(tmp_path / "run", monkeypatch, epoch=2)
    checkpoint = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    stopped(tmp_path / "run", monkeypatch, epoch=2, resume=True)
    (tmp_path / "run" / "checkpoint.pt").write_bytes(checkpoint)
    fitted(tmp_path / "run", resume=True)
    assert epochs(recorder) == [(1, 0), (2, 1), (3, 2)]


def test_a_damaged_memory_begins_a_new_run(tmp_path, recorder, monkeypatch):
    stopped(tmp_path / "run", monkeypatch, epoch=2)
    (tmp_path / "run" / "tracking" / "mlflow.json").write_text("[")
    fitted(tmp_path / "run", resume=True)
    assert [call[-1] for call in recorder.calls if call[0] == "start"] == [None, None]


@pytest.mark.parametrize("call", ["init", "start", "stage", "epoch", "results", "end"])
def test_a_tracker_that_fails_warns_once_and_changes_nothing(tmp_path, recorder, call):
    plain = fitted(None, log=())
    recorder.failing, heard = call, Heard()
    result = fitted(tmp_path / "run", heard)
    (warning,) = heard.warnings
    assert warning.startswith("warning: mlflow failed (")
    assert "No space left on device" in warning
    assert same_weights(plain, result)
    assert result.metrics["validation"].overall == plain.metrics["validation"].overall
    assert (tmp_path / "run" / "done").exists()
    assert recorder.calls[-1][0] == call  # nothing is told afterwards


def test_a_tracker_that_hangs_does_not_keep_the_training(tmp_path, recorder, monkeypatch):
    monkeypatch.setattr(trackers, "_PATIENCE", 0.01)
    recorder.hanging, heard = "epoch", Heard()
    fitted(tmp_path / "run", heard)
    (warning,) = heard.warnings
    assert "mlflow has not taken all records after" in warning
    assert (tmp_path / "run" / "done").exists()


def test_a_training_that_fails_is_a_failed_run(tmp_path, recorder, monkeypatch):
    def broken(training, step):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Training, "_train_epoch", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        fitted(tmp_path / "run")
    assert recorder.calls[-1] == ("end", "failed", "out of ")
    assert not (tmp_path / "run").exists()  # as without a tracker


def test_what_cannot_be_logged_to_is_refused_before_the_training(tmp_path, monkeypatch):
    with pytest.raises(CrossbiasError, match=r"no log 'mlfow' .did you mean 'mlflow'"):
        fitted(tmp_path / "run", log=["mlfow"])
    with pytest.raises(CrossbiasError, match="run has none; pass folder="):
        fitted(None, log=["tensorboard"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CrossbiasError, match=r"needs wandb: pip install 'crossbias\[wandb\]'"):
        fitted(tmp_path / "run", log=["wandb"])
    assert not (tmp_path / "run").exists()


def test_files_and_the_command_line_name_logs(tmp_path, recorder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.toml"
    path.write_text(
        'log = ["mlflow"]\n[data]\nname = "glyphs"\nsize = 24\ntest_size = 12\n'
        '[network]\nname = "small-convnet"\n[train]\nsteps = 1\nbatch_size = 12\ndevice = "cpu"\n'
    )
    assert Experiment.from_toml(path).log == ("mlflow",)
    app(
        ["train", "--config", "small.toml", "--out", "run", "--quiet", "--log", "tensorboard"],
        standalone_mode=False,
    )
    assert recorder.calls == []  # options override the file
    assert [*(tmp_path / "run" / "tensorboard").glob("events*")]
    Experiment.from_toml(path).run(tmp_path / "other")
    assert "test" in [call[1] for call in recorder.calls if call[0] == "results"]
    path.write_text('log = "mlflow,wandb"\n')
    assert Experiment.from_toml(path).log == ("mlflow", "wandb")
    path.write_text("log = 3\n")
    with pytest.raises(CrossbiasError, match=r"log of .* must be a list"):
        Experiment.from_toml(path)


def test_the_memory_is_readable(tmp_path, recorder):
    fitted(tmp_path / "run")
    content = json.loads((tmp_path / "run" / "tracking" / "mlflow.json").read_text())
    assert content == {"run": "run 7", "epochs": {"final": 3}}


def test_a_training_without_a_log_imports_no_tracker(program):
    code = """
import sys, warnings
warnings.simplefilter("ignore")
import crossbias
from crossbias.methods import ERM
from crossbias.testing import tiny_data, tiny_network
config = crossbias.TrainConfig(epochs=1, device="cpu")
crossbias.fit(ERM(), tiny_data(), network=tiny_network(), config=config, progress=False)
print(*{"tensorboard", "wandb", "mlflow"} & sys.modules.keys())
"""
    done = program.run(code)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
