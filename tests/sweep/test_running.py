import json
import os
import signal
import socket
import time
from types import SimpleNamespace

import pytest

from crossbias.errors import CrossbiasError, Interrupted
from crossbias.runs import RunFolder, compare
from crossbias.runs.sweeps import SweepFolder, runs_by_data
from crossbias.sweep import Plan, run_sweep
from crossbias.sweep.local import (
    LocalExecutor,
    _wait_for_writer,
    free_device_memory,
    free_memory,
)
from crossbias.sweep.running import _executor
from crossbias.sweep.worker import train_job

TWO = """
seeds = [0, 1]
[[method]]
name = "erm"
[[method]]
name = "class-balanced"
[train]
epochs = 1
"""


def states(folder) -> list[str]:
    return [run.state for run in SweepFolder(folder).status()]


def test_all_runs_are_trained_once_and_finished_ones_are_skipped(plan_file, tmp_path, here):
    plan = Plan.read(plan_file(TWO))
    runs = run_sweep(plan, tmp_path / "s")
    assert [run.state for run in runs] == ["finished"] * 4
    assert here[0].submitted == [run.name for run in runs]
    run_sweep(plan, tmp_path / "s")
    assert here[1].submitted == []
    more = Plan.read(plan_file(TWO.replace("[0, 1]", "[0, 1, 2]")))
    run_sweep(more, tmp_path / "s")
    assert len(here[2].submitted) == 2
    assert states(tmp_path / "s") == ["finished"] * 6


def test_a_run_is_the_one_that_its_command_trains(plan_file, tmp_path, here, monkeypatch):
    from crossbias.cli import main

    plan = Plan.read(plan_file('[[method]]\nname = "erm"\n[train]\nepochs = 2'))
    (run,) = run_sweep(plan, tmp_path / "s")
    folder = RunFolder(tmp_path / "s" / "runs" / run.name)
    config = json.loads(folder.config.read_text())
    words = config["command"].split()[1:-1]
    monkeypatch.setattr("sys.argv", ["crossbias", *words, str(tmp_path / "alone")])
    with pytest.raises(SystemExit, match="0"):
        main()
    alone = RunFolder(tmp_path / "alone")
    assert alone.model.read_bytes() == folder.model.read_bytes()


def test_a_failed_run_is_listed_with_its_last_line_and_tried_again_on_request(
    plan_file, tmp_path, here
):
    # The second network has too many logits for a run to begin.
    plan = Plan.read(plan_file('[[network]]\nname = "mlp"\n[[network]]\nname = "resnet18"\n'))
    finished, failed = run_sweep(plan, tmp_path / "s")
    assert (finished.state, failed.state) == ("finished", "failed")
    assert "resnet18" in failed.line
    printed = (tmp_path / "s" / "logs" / f"{failed.name}.txt").read_text()
    assert failed.line.removesuffix(f" (on {socket.gethostname()})") in printed
    run_sweep(plan, tmp_path / "s")
    assert here[1].submitted == []
    run_sweep(plan, tmp_path / "s", retry=True)
    assert here[2].submitted == [failed.name]


TWO_FOLDERS = """
[[data]]
name = "folder:{0}/away"
[[data]]
name = "folder:{0}/here"
[network]
name = "small-convnet"
[train]
epochs = 1
"""


def test_a_machine_without_the_data_is_named_with_the_path_and_the_others_go_on(
    plan_file, tmp_path, here, monkeypatch, own_images
):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    own_images(tmp_path / "here")
    plan = Plan.read(plan_file(TWO_FOLDERS.format(tmp_path)))
    failed, finished = run_sweep(plan, tmp_path / "s")
    assert (failed.state, finished.state) == ("failed", "finished")
    assert str(tmp_path / "away") in failed.line
    assert failed.line.endswith(f"(on {socket.gethostname()})")
    own_images(tmp_path / "away")
    run_sweep(plan, tmp_path / "s", retry=True)
    assert here[1].submitted == [failed.name]
    assert states(tmp_path / "s") == ["finished", "finished"]


def test_a_machine_that_does_not_see_the_sweep_trains_nothing(plan_file, tmp_path):
    (job,) = Plan.read(plan_file("")).jobs()
    outcome = train_job(job, tmp_path / "not-mounted")
    assert outcome.state == "failed"
    assert f"does not see the sweep's folder {tmp_path / 'not-mounted'}" in outcome.line
    assert not (tmp_path / "not-mounted").exists()


def test_a_stopped_run_is_resumed_to_the_same_bits(plan_file, tmp_path, here, monkeypatch):
    from crossbias.sweep import worker

    plan = Plan.read(plan_file("[train]\nepochs = 3\nbatch_size = 4"))
    (whole,) = run_sweep(plan, tmp_path / "whole")
    before = worker.shown_progress

    class Stopping:
        """Asks to stop after the second epoch."""

        def __getattr__(self, name):
            return lambda *_: None

        def end_epoch(self, record):
            if record["epoch"] == 2:
                SweepFolder(tmp_path / "s").stop_request.touch()
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(worker, "shown_progress", Stopping)
    with pytest.raises(Interrupted, match="the same command continues it"):
        run_sweep(plan, tmp_path / "s")
    assert states(tmp_path / "s") == ["stopped"]
    assert not SweepFolder(tmp_path / "s").stop_request.exists()
    monkeypatch.setattr(worker, "shown_progress", before)
    run_sweep(plan, tmp_path / "s")
    models = [
        tmp_path / name / "runs" / whole.name / "model.safetensors" for name in ("whole", "s")
    ]
    assert models[0].read_bytes() == models[1].read_bytes()
    resumed = json.loads((tmp_path / "s" / "runs" / whole.name / "config.json").read_text())
    assert len(resumed["resumes"]) == 1


def test_another_sweep_in_the_folder_is_refused(plan_file, tmp_path, here):
    run_sweep(Plan.read(plan_file(TWO)), tmp_path / "s")
    with pytest.raises(CrossbiasError, match="holds another sweep: 4 of its runs are not in"):
        run_sweep(Plan.read(plan_file(TWO + "lr = 0.5")), tmp_path / "s")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(CrossbiasError, match="exists and holds no sweep"):
        run_sweep(Plan.read(plan_file(TWO)), tmp_path / "full")


def test_a_plan_with_another_alternative_keeps_the_runs_and_their_names(plan_file, tmp_path, here):
    one = '[[method]]\nname = "pgd"\nq = 0.6\n'
    rest = '[data]\nname = "toy-2d"\nsize = 12\ntest_size = 9\n[train]\nepochs = 1\n'
    (before,) = run_sweep(Plan.read(plan_file(one + rest)), tmp_path / "s")
    trained = (tmp_path / "s" / "runs" / before.name / "done").stat().st_mtime_ns
    runs = run_sweep(Plan.read(plan_file(one + one.replace("6", "7") + rest)), tmp_path / "s")
    assert [run.state for run in runs] == ["finished"] * 2
    assert runs[0].name == before.name
    assert "-q0.7-" in runs[1].name
    assert (tmp_path / "s" / "runs" / before.name / "done").stat().st_mtime_ns == trained


def test_two_processes_cannot_drive_one_sweep(plan_file, tmp_path, here):
    from crossbias.runs.writer import Writer

    plan = Plan.read(plan_file(TWO))
    run_sweep(plan, tmp_path / "s")
    other = Writer(tmp_path / "s")
    other.acquire()
    with pytest.raises(CrossbiasError, match="is being written by process"):
        run_sweep(plan, tmp_path / "s")
    other.release()


def test_a_comparison_takes_the_folder_of_a_sweep(plan_file, tmp_path, here):
    run_sweep(Plan.read(plan_file(TWO)), tmp_path / "s")
    comparison = compare(tmp_path / "s")
    assert [len(row.runs) for row in comparison.rows] == [2, 2]
    assert comparison.baseline.runs[0].method == "erm"
    SweepFolder(tmp_path / "s").failures.mkdir()
    unfinished = comparison.runs[-1].path
    (unfinished / "done").unlink()
    notes = compare(tmp_path / "s").notes
    assert f"1 of 4 runs of {tmp_path / 's'} are not finished." in notes


def test_a_sweep_over_data_options_is_compared_part_by_part(plan_file, tmp_path, here):
    text = '[[data]]\nname = "toy-2d"\nsize = 12\ntest_size = 9\n#[data]\n'
    text += text.replace("12", "15")
    run_sweep(Plan.read(plan_file(text + "[train]\nepochs = 1")), tmp_path / "s")
    parts = runs_by_data([tmp_path / "s"])
    assert {data: len(runs) for data, runs in parts.items()} == {
        "toy-2d (size 12, test_size 9)": 1,
        "toy-2d (size 15, test_size 9)": 1,
    }


def test_a_sweep_without_a_finished_run_cannot_be_compared(tmp_path):
    folder = SweepFolder(tmp_path)
    folder.write_listing({"a": "toy-2d"}, {})
    with pytest.raises(CrossbiasError, match=r"no run of the sweep .* is finished; see: crossbias"):
        compare(tmp_path)


@pytest.mark.parametrize(
    "text", ["[]", '{"runs": 3}', '{"runs": {"../x": "d"}}', '{"runs": {"a": 1}}']
)
def test_a_damaged_listing_is_one_line(tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(CrossbiasError, match="is damaged; start the sweep again"):
        SweepFolder(tmp_path).status()


def test_processes_train_in_parallel_and_a_killed_one_fails_alone(plan_file, tmp_path, program):
    plan = Plan.read(plan_file(TWO + "batch_size = 4\n[grid]\ntrain.validation_interval = [1]\n"))
    jobs = plan.jobs()
    long = Plan.read(plan_file("[train]\nepochs = 100000\nbatch_size = 1")).jobs()
    SweepFolder(tmp_path).write_listing({}, {})
    executor = LocalExecutor(tmp_path, jobs=3, threads=1)
    executor.submit([jobs[0], jobs[1], *long])
    outcomes = {}
    while len(outcomes) < 2:
        outcomes |= {outcome.name: outcome for outcome in executor.ended(1)}
    assert {outcome.state for outcome in outcomes.values()} == {"finished"}
    assert executor.room() == 1
    assert min(outcome.memory for outcome in outcomes.values()) > 10**8
    begun = tmp_path / "runs" / long[0].name / "checkpoint.pt"
    while not begun.exists():
        time.sleep(0.05)
    os.kill(executor._busy()[0].process.pid, signal.SIGKILL)
    (killed,) = executor.ended(10)
    assert (killed.state, killed.line) == ("failed", "its process ended with SIGKILL")
    executor.submit(long)  # resumes it
    time.sleep(0.5)
    executor.stop()
    (stopped,) = executor.ended(60)
    assert stopped.state == "stopped"
    assert SweepFolder(tmp_path).state_of(long[0].name) == "stopped"
    executor.close()


DRIVER = """
import multiprocessing, sys, time
from pathlib import Path
from crossbias.sweep import Plan
from crossbias.sweep.local import _train_all

forks = multiprocessing.get_context("fork")
mine, theirs = forks.Pipe()

def work():
    mine.close()
    _train_all(Path(sys.argv[2]), theirs, 1, None)

forks.Process(target=work).start()
mine.send(Plan.read(Path(sys.argv[1])).jobs()[0])
time.sleep(300)
"""


def test_runs_save_and_end_if_their_driver_is_killed(plan_file, tmp_path, program):
    plan = plan_file("[train]\nepochs = 100000\nbatch_size = 1")
    (job,) = Plan.read(plan).jobs()
    (tmp_path / "s").mkdir()
    SweepFolder(tmp_path / "s").write_listing({}, {})
    driver = program(DRIVER, ["-c", str(plan), str(tmp_path / "s")])
    run, limit = tmp_path / "s" / "runs" / job.name, time.monotonic() + 60
    while not (run / "checkpoint.pt").exists():
        assert time.monotonic() < limit
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    printed, limit = tmp_path / "s" / "logs" / f"{job.name}.txt", time.monotonic() + 60
    while "stopped on request" not in printed.read_text():
        assert time.monotonic() < limit
        time.sleep(0.05)
    assert SweepFolder(tmp_path / "s").state_of(job.name) == "stopped"


@pytest.mark.parametrize(("jobs", "threads"), [(1, 6), (4, 1), (9, 1)])
def test_runs_share_the_threads_that_one_run_would_have(
    plan_file, tmp_path, monkeypatch, jobs, threads
):
    """The processors of the machine are more than OMP_NUM_THREADS or a container may allow."""
    monkeypatch.setattr("torch.get_num_threads", lambda: 6)
    plan = Plan.read(plan_file(""))
    executor = _executor(plan, SweepFolder(tmp_path), "local", jobs, None)
    assert executor.threads == threads


def test_a_run_waits_until_one_without_a_driver_has_saved(tmp_path, monkeypatch):
    holders = iter([True, True, False])
    monkeypatch.setattr("crossbias.sweep.local.is_written", lambda _: next(holders))
    _wait_for_writer(tmp_path)
    assert next(holders, None) is None


def test_a_run_waits_for_the_memory_that_others_needed(tmp_path, monkeypatch):
    executor = LocalExecutor(tmp_path, jobs=2, threads=1)
    assert executor.room() == 1
    executor._workers.append(SimpleNamespace(job="a", device=None))
    executor._memory = 1000
    monkeypatch.setattr("crossbias.sweep.local.free_memory", lambda: 1099)
    assert executor.room() == 0
    monkeypatch.setattr("crossbias.sweep.local.free_memory", lambda: 1100)
    assert executor.room() == 1
    executor._workers.clear()
    monkeypatch.setattr("crossbias.sweep.local.free_memory", lambda: 0)
    assert executor.room() == 1  # one run is always trained


def test_a_run_waits_for_the_memory_of_the_gpu_that_it_would_get(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    monkeypatch.setattr("crossbias.sweep.local.free_memory", lambda: None)
    free: dict[str, int | None] = {"5": 0, "3": 1100}
    monkeypatch.setattr("crossbias.sweep.local.free_device_memory", lambda gpu: free[gpu])
    executor = LocalExecutor(tmp_path, jobs=4, threads=1, devices=2)
    executor._workers.append(SimpleNamespace(job="a", device=0))
    assert executor.room() == 1  # nobody knows yet how much a run needs
    executor._device_memory = 1000
    assert executor.room() == 1  # the second device is the least used one
    free["3"] = 1099
    assert executor.room() == 0
    free["3"] = None
    assert executor.room() == 1
    executor._workers.append(SimpleNamespace(job="b", device=1))
    assert executor.room() == 0  # the first one again, which is full
    free["5"] = 1100
    assert executor.room() == 1


def test_the_memory_of_a_gpu_is_asked_of_its_driver(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\ncase "$1" in --id=3) echo 40960 ;; *) echo No devices ;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (free_device_memory("3"), free_device_memory("MIG-1")) == (40960 * 2**20, None)
    program.unlink()
    assert free_device_memory("3") is None


def test_free_memory_is_the_smaller_of_machine_and_container(tmp_path):
    for name, text in {
        "proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    2048 kB\n",
        "sys/fs/cgroup/memory.max": "1000000\n",
        "sys/fs/cgroup/memory.current": "400000\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_memory(tmp_path) == 600000
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert free_memory(tmp_path) == 2048 * 1024
    assert free_memory(tmp_path / "none") is None
