"""Run folders and checkpoints: whole, refused where they do not fit, never lost."""

import json
import os
import shutil

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.methods import ERM, PGD, EnD
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=2, batch_size=16, device="cpu")


@pytest.fixture
def interrupted(data, network, validation, tmp_path, monkeypatch):
    """A run of EnD stopped in its second epoch."""
    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda self, step: stop_now(step))
        taken = []

        def stop_now(step):
            taken.append(step)
            return len(taken) == 5

        with pytest.raises(Interrupted):
            crossbias.fit(EnD(), data, validation, network=network, config=CONFIG, folder=folder)
    return folder


def resumed(folder, data, network, validation, method=None, config=CONFIG):
    return crossbias.fit(
        method or EnD(), data, validation, network=network, config=config, folder=folder,
        resume=True,
    )  # fmt: skip


def test_a_finished_run_holds_what_it_should(data, network, validation, tmp_path):
    folder = tmp_path / "deep" / "run"
    result = crossbias.fit(ERM(), data, validation, network=network, config=CONFIG, folder=folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "config.json", "log.jsonl", "checkpoint.pt", "model.safetensors", "predictions.npz",
        "metrics.json", "labels.npz", "health.json", "done",
    }  # fmt: skip
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["validation"]["overall"].keys() == {"value", "low", "high", "n"}
    assert metrics["validation"]["overall"]["n"] == len(validation)
    from safetensors.torch import load_file

    for key, value in load_file(folder / "model.safetensors").items():
        assert torch.equal(value, result.network.state_dict()[key])


def test_a_pipeline_keeps_its_stages_and_does_not_repeat_them(
    data, network, validation, tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    trained = []
    original = Run.train

    def stopping(self, method, *, name="final", **more):
        if name == "final" and not trained:
            trained.append(name)
            raise Interrupted("stopped")
        return original(self, method, name=name, **more)

    with monkeypatch.context() as patched, pytest.raises(Interrupted):  # noqa: PT012
        patched.setattr(Run, "train", stopping)
        crossbias.fit(PGD(), data, network=network, config=CONFIG, folder=folder)
    stages = {path.name for path in (folder / "stages").iterdir()}
    assert stages == {"biased.state.pt", "scores.pt", "draws.pt"}
    log = (folder / "log.jsonl").read_text()
    score = Run.score
    monkeypatch.setattr(Run, "score", lambda *_: pytest.fail("the stage was computed again"))
    result = crossbias.fit(PGD(), data, network=network, config=CONFIG, folder=folder, resume=True)
    assert (folder / "log.jsonl").read_text().startswith(log)
    monkeypatch.setattr(Run, "score", score)
    whole = crossbias.fit(PGD(), data, network=network, config=CONFIG)
    for key, value in whole.network.state_dict().items():
        assert torch.equal(value, result.network.state_dict()[key])


def test_another_run_in_the_folder_is_not_touched(data, network, tmp_path):
    folder = tmp_path / "run"
    crossbias.fit(ERM(), data, network=network, config=CONFIG, folder=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(CrossbiasError, match=r"already holds a run \(erm on tiny, finished\)"):
        crossbias.fit(EnD(), data, network=network, config=CONFIG, folder=folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_folder_with_other_files_and_a_file_in_its_place_are_refused(data, network, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    (tmp_path / "file").write_bytes(b"text")
    for name in ("photos", "file"):
        with pytest.raises(CrossbiasError, match="exists and is not empty"):
            crossbias.fit(ERM(), data, network=network, config=CONFIG, folder=tmp_path / name)
    with pytest.raises(CrossbiasError, match="cannot make the folder"):
        crossbias.fit(ERM(), data, network=network, config=CONFIG, folder=tmp_path / "file/run")


def test_resuming_nothing_or_something_finished_is_refused(data, network, validation, tmp_path):
    with pytest.raises(CrossbiasError, match="holds no run to resume"):
        resumed(tmp_path / "none", data, network, validation)
    crossbias.fit(EnD(), data, network=network, config=CONFIG, folder=tmp_path / "run")
    with pytest.raises(CrossbiasError, match="is finished: there is nothing to resume"):
        resumed(tmp_path / "run", data, network, validation)


def test_an_unfinished_run_is_pointed_to_its_resumption(interrupted, data, network):
    with pytest.raises(CrossbiasError, match="crossbias train --resume --out"):
        crossbias.fit(EnD(), data, network=network, config=CONFIG, folder=interrupted)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "text", "pickle"])
def test_a_damaged_checkpoint_is_refused_and_kept(damage, interrupted, data, network, validation):
    path = interrupted / "checkpoint.pt"
    content = path.read_bytes()
    middle = len(content) // 2
    tensor = torch.load(path, weights_only=True)["state"]["network"]["head.weight"]
    place = content.index(tensor.numpy().tobytes())
    damaged = {
        "truncated": content[:middle],
        "flipped": content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
        "empty": b"",
        "text": b"not a checkpoint",
        "pickle": b"cos\nsystem\n(S'touch /tmp/never'\ntR.",
    }[damage]
    path.write_bytes(damaged)
    with pytest.raises(CrossbiasError, match="is damaged"):
        resumed(interrupted, data, network, validation)
    assert path.read_bytes() == damaged
    path.write_bytes(content)
    assert resumed(interrupted, data, network, validation).metrics


def test_a_run_can_go_on_after_its_damaged_checkpoint_was_deleted(
    interrupted, data, network, validation
):
    (interrupted / "checkpoint.pt").unlink()
    result = resumed(interrupted, data, network, validation)
    whole = crossbias.fit(EnD(), data, validation, network=network, config=CONFIG)
    for key, value in whole.network.state_dict().items():
        assert torch.equal(value, result.network.state_dict()[key])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": EnD(alpha=0.7)}, r"method alpha = 0.1, not 0.7"),
        ({"method": ERM()}, "method name = 'end', not 'erm'"),
        ({"config": TrainConfig(epochs=9, batch_size=16, device="cpu")}, "train epochs = 2, not 9"),
    ],
)
def test_resuming_with_other_settings_is_refused(
    change, message, interrupted, data, network, validation
):
    with pytest.raises(CrossbiasError, match=message):
        resumed(interrupted, data, network, validation, **change)


def test_resuming_on_other_data_is_refused(interrupted, data, network, validation):
    with pytest.raises(CrossbiasError, match="was started with other train data"):
        resumed(interrupted, data.subset(torch.arange(40)), network, validation)


@pytest.mark.parametrize(("method", "hidden"), [(ERM(), 6), (EnD(), 7)])
def test_a_checkpoint_of_another_method_or_network_is_refused(
    method, hidden, interrupted, data, validation, tmp_path
):
    """Copied by hand between folders."""
    from torch import nn

    body = nn.Sequential(nn.Conv2d(3, hidden, 3, padding=1), nn.BatchNorm2d(hidden), nn.ReLU())
    other = crossbias.Network(nn.Sequential(*body, nn.Dropout(0.1)), nn.Linear(hidden, 3))
    folder = tmp_path / "other"
    crossbias.fit(method, data, validation, network=other, config=CONFIG, folder=folder)
    (folder / "done").unlink()
    shutil.copy(interrupted / "checkpoint.pt", folder / "checkpoint.pt")
    message = r"config\.json is not the configuration with which .*checkpoint\.pt was written"
    with pytest.raises(CrossbiasError, match=message):
        resumed(folder, data, other, validation, method=method)


def test_the_log_is_on_disk_before_the_checkpoint(data, network, tmp_path, monkeypatch):
    events = []
    real = {"fsync": os.fsync, "replace": os.replace}

    def fsync(descriptor):
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        real["fsync"](descriptor)

    def replace(source, target):
        events.append(f"renamed {os.path.basename(target)}")
        real["replace"](source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    crossbias.fit(ERM(), data, network=network, config=CONFIG, folder=tmp_path / "run")
    kept = [event for event in events if event in ("log.jsonl", "renamed checkpoint.pt")]
    assert kept == ["log.jsonl", "renamed checkpoint.pt"] * CONFIG.epochs


@pytest.mark.parametrize("line", ["[]", "7", '{"stage": "final"}', '{"sta', "\xff\x00"])
def test_damaged_log_lines_do_not_stop_a_resume(line, interrupted, data, network, validation):
    log = interrupted / "log.jsonl"
    whole = log.read_text()
    log.write_bytes(whole.encode() + line.encode("latin1"))
    assert resumed(interrupted, data, network, validation).metrics
    epochs = [json.loads(each)["epoch"] for each in log.read_text().splitlines()]
    assert epochs == [1, 2]


FULL_DISK = """
import resource, signal
from crossbias.testing import tiny_data, tiny_network
import crossbias
from crossbias.methods import ERM
from crossbias.runs.folder import RunFolder
from crossbias.progress import Progress

class FillsUp(Progress):
    def end_epoch(self, record):
        if record["epoch"] == 1:  # from now on no file may grow past 100 bytes
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
config = crossbias.TrainConfig(epochs=3, batch_size=16, device="cpu")
RunFolder.append = lambda self, record: None  # the log grows too; it is not what is tested
try:
    crossbias.fit(
        ERM(), tiny_data(), network=tiny_network(), config=config, folder={folder!r},
        progress=FillsUp(),
    )
except crossbias.CrossbiasError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(error)
"""


def test_a_disk_that_fills_up_while_saving_leaves_the_last_checkpoint_whole(program, tmp_path):
    folder = tmp_path / "run"
    done = program.run(FULL_DISK.format(folder=str(folder)))
    assert f"cannot write {folder / 'checkpoint.pt'}: File too large" in done.stdout, done.stderr
    assert torch.load(folder / "checkpoint.pt", weights_only=True)["epoch"] == 1
    assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")]
