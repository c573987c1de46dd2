"""One writer at a time: a second start, a resume and a suspended process are refused."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import crossbias
from crossbias import TrainConfig
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.methods import ERM
from crossbias.progress import Progress
from crossbias.runs import RunFolder
from crossbias.runs.writer import LOCK_FILES, Writer
from crossbias.testing import tiny_data, tiny_network
from crossbias.train.run import Run

CONFIG = TrainConfig(epochs=3, batch_size=16, device="cpu")


def fitted(folder: Path, **more: object) -> crossbias.Result:
    options = {"network": tiny_network(), "config": CONFIG, "folder": folder, "progress": False}
    return crossbias.fit(ERM(), tiny_data(), **options | more)


class Meanwhile(Progress):
    """Does something at the end of the first epoch, while the run is being written."""

    def __init__(self, do) -> None:
        self.do = do

    def end_epoch(self, record) -> None:
        """Do it once."""
        if record["epoch"] == 1:
            self.do()


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_start_and_a_resume_are_refused_while_a_run_is_written(tmp_path, resume):
    refused = []

    def again() -> None:
        with pytest.raises(CrossbiasError) as caught:
            fitted(tmp_path / "run", resume=resume)
        refused.append(str(caught.value))

    whole = fitted(tmp_path / "run", progress=Meanwhile(again))
    expected = f"is being written by process {os.getpid()} on" if resume else "already holds a run"
    assert expected in refused[0]
    log = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in log] == [1, 2, 3]
    alone = fitted(tmp_path / "alone")
    for key, value in alone.network.state_dict().items():
        assert torch.equal(value, whole.network.state_dict()[key])
    assert not [name for name in LOCK_FILES if (tmp_path / "run" / name).exists()]


def test_two_starts_in_a_new_folder_at_once(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    other = Writer(folder)
    other.acquire()
    with pytest.raises(CrossbiasError, match="is being written by process"):
        fitted(folder)
    other.release()
    assert fitted(folder).folder == folder


def test_a_process_that_lost_the_folder_writes_nothing_more(tmp_path):
    folder = tmp_path / "run"

    def taken_over() -> None:  # as on a network file system that forgot the lock
        holder = {"process": 1, "host": "elsewhere", "token": "other"}
        (folder / "writer.json").write_text(json.dumps(holder))

    with pytest.raises(CrossbiasError, match="is being written by process 1 on elsewhere"):
        fitted(folder, progress=Meanwhile(taken_over))
    assert len((folder / "log.jsonl").read_text().splitlines()) == 1
    assert torch.load(folder / "checkpoint.pt", weights_only=True)["epoch"] == 1
    assert json.loads((folder / "writer.json").read_text())["token"] == "other"


HOLDER = """
import json, os, socket, sys, time
from filelock import FileLock
lock = FileLock(sys.argv[1] + "/lock")
lock.acquire()
with open(sys.argv[1] + "/writer.json", "w") as file:
    json.dump({"process": os.getpid(), "host": socket.gethostname(), "token": "his"}, file)
print("held", flush=True)
time.sleep(60)
"""


def test_a_suspended_process_keeps_its_lock_and_a_killed_one_does_not(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(CrossbiasError, match=f"written by process {process.pid} on"):
            Writer(tmp_path).acquire()
    finally:
        process.kill()
        process.communicate()
    own = Writer(tmp_path)
    own.acquire()
    own.check()
    own.release()
    assert list(tmp_path.iterdir()) == []


def test_children_of_a_killed_process_are_waited_for(tmp_path, monkeypatch):
    """They hold its lock until they notice; the name in the folder is that of a dead process."""
    held, own = Writer(tmp_path), Writer(tmp_path)
    held.acquire()
    ended = subprocess.Popen(["true"])
    ended.wait()
    holder = json.loads(held.name.read_text()) | {"process": ended.pid}
    held.name.write_text(json.dumps(holder))
    waited = []
    real = own._lock.acquire

    def acquire(timeout):
        waited.append(timeout)
        if timeout:
            held._lock.release()
        return real(timeout=timeout)

    monkeypatch.setattr(own._lock, "acquire", acquire)
    own.acquire()
    assert waited == [0, 15.0]
    own.release()


def test_a_failed_run_lets_others_write(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda run, step: True)
        with pytest.raises(Interrupted):
            fitted(tmp_path / "run")
    assert not [name for name in LOCK_FILES if (tmp_path / "run" / name).exists()]
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "save_model", lambda *_: pytest.fail("broken"))
        with pytest.raises(pytest.fail.Exception):
            fitted(tmp_path / "run", resume=True)
    assert fitted(tmp_path / "run", resume=True).folder is not None


def test_answers_are_added_to_a_finished_run_by_one_process_only(tmp_path):
    result = fitted(tmp_path / "run")
    other = Writer(tmp_path / "run")
    other.acquire()
    before = (tmp_path / "run" / "done").read_bytes()
    with pytest.raises(CrossbiasError, match="is being written"):
        result.evaluate(tiny_data(30, seed=1, split="test"))
    assert (tmp_path / "run" / "done").read_bytes() == before
    other.release()
    result.evaluate(tiny_data(30, seed=1, split="test"))
    assert (tmp_path / "run" / "done").read_bytes() != before


@pytest.mark.parametrize("name", ["log.jsonl", "checkpoint.pt", "stages", "stages/inner"])
@pytest.mark.parametrize("dangling", [True, False])
def test_a_run_is_not_written_through_links(tmp_path, name, dangling):
    target, link = tmp_path / "elsewhere", tmp_path / "run" / name
    link.parent.mkdir(parents=True)
    if not dangling:
        target.mkdir()
    link.symlink_to(target)
    (tmp_path / "run" / "config.json").touch()
    with pytest.raises(CrossbiasError, match=rf"{name} is a link, through which"):
        RunFolder.reopen(tmp_path / "run")
    assert target.exists() != dangling


def test_what_a_killed_start_leaves_behind_is_cleaned_up(tmp_path):
    """Killed while config.json was written: before, the folder could neither start nor resume."""
    folder = tmp_path / "run"
    folder.mkdir()
    left = folder / ".0123456789abcdef.tmp"
    left.write_text('{"version"')
    (folder / "lock").touch()
    (folder / "writer.json").write_text("{")
    assert fitted(folder).folder == folder
    assert not left.exists()


def test_temporary_files_of_a_killed_run_are_deleted_when_it_goes_on(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(Run, "asked_to_stop", lambda run, step: True)
        with pytest.raises(Interrupted):
            fitted(folder)
    (folder / "stages").mkdir()
    for left in (folder / ".00000000000000aa.tmp", folder / "stages" / ".00000000000000bb.tmp"):
        left.write_bytes(b"half")
    (folder / "notes.tmp").write_text("mine")
    fitted(folder, resume=True)
    assert {path.name for path in folder.rglob("*.tmp")} == {"notes.tmp"}


def test_a_resumed_run_keeps_how_it_was_started_and_lists_the_resumes(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    for number, command in enumerate(["start", "go on", "go on again"]):
        monkeypatch.setattr(sys, "argv", ["crossbias", command])
        with monkeypatch.context() as patched:
            if number < 2:
                patched.setattr(Run, "asked_to_stop", lambda run, step: True)
                with pytest.raises(Interrupted):
                    fitted(folder, resume=number > 0)
            else:
                fitted(folder, resume=True)
    config = json.loads((folder / "config.json").read_text())
    assert config["command"] == "crossbias start"
    assert [each["command"] for each in config["resumes"]] == [
        "crossbias 'go on'", "crossbias 'go on again'"
    ]  # fmt: skip
    assert config["resumes"][0]["environment"] == config["environment"]
