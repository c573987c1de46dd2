"""A real Slurm of one node on this machine, where root may start one."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from crossbias.errors import CrossbiasError
from crossbias.runs import RunFolder
from crossbias.sweep import Plan, run_sweep

SCRIPT = Path(__file__).with_name("slurm.sh")
MISSING = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if not shutil.which(name)]
PLAN = """
seeds = [0, 1]
[train]
epochs = 300
batch_size = 4
[slurm]
cpus_per_task = 1
time = 5
"""


pytestmark = pytest.mark.cluster


@pytest.fixture
def slurm(tmp_path_factory, monkeypatch) -> Iterator[None]:
    if MISSING or os.geteuid():
        pytest.skip(f"no Slurm can be started: root, and {', '.join(MISSING)}, are needed")
    folder, ports = tmp_path_factory.mktemp("slurm"), []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(free.getsockname()[1]))
    subprocess.run([SCRIPT, "start", folder, *ports], check=True)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    subprocess.run([SCRIPT, "stop", folder], check=True)


def queue() -> list[str]:
    """The identifiers of all jobs in the queue."""
    listing = ["squeue", "--noheader", "--array", "--format=%i"]
    return subprocess.check_output(listing, text=True).split()


def first_saved(folder: Path) -> str:
    """The name of the first run that has saved something."""
    while not (saved := list(folder.glob("runs/*/checkpoint.pt"))):
        time.sleep(0.1)
    return saved[0].parent.name


def preempt(folder: Path) -> None:
    """Send the signal of a preemption to the first run that has saved something."""
    run = first_saved(folder)
    ((_, names),) = json.loads((folder / "slurm" / "arrays.json").read_text()).items()
    (number,) = [job for job in queue() if job.endswith(f"_{names.index(run)}")]
    subprocess.run(["scancel", "--signal=USR2", number], check=True)
    # Slurm lets a job that is back in its queue wait for two minutes.
    reason = ["squeue", "--noheader", "--format=%r", f"--jobs={number}"]
    while subprocess.check_output(reason, text=True) != "BeginTime\n":
        time.sleep(0.1)
    subprocess.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], check=True)


def test_runs_of_an_array_end_and_a_preempted_one_resumes_to_the_same_bits(
    slurm, plan_file, tmp_path
):
    plan = Plan.read(plan_file(PLAN))
    signal = threading.Thread(target=preempt, args=[tmp_path / "slurm"], daemon=True)
    signal.start()
    runs = run_sweep(plan, tmp_path / "slurm", on="slurm", jobs=2)
    signal.join()
    assert [run.state for run in runs] == ["finished", "finished"]
    folders = [RunFolder(tmp_path / "slurm" / "runs" / run.name) for run in runs]
    resumes = [json.loads(folder.config.read_text()).get("resumes", []) for folder in folders]
    assert sorted(map(len, resumes)) == [0, 1]
    alone = run_sweep(plan, tmp_path / "local", jobs=2)
    for folder, run in zip(folders, alone, strict=True):
        other = RunFolder(tmp_path / "local" / "runs" / run.name)
        assert folder.model.read_bytes() == other.model.read_bytes()


def test_a_killed_driver_watches_its_jobs_again(slurm, plan_file, tmp_path):
    path, out = plan_file(PLAN), tmp_path / "slurm"
    sweep = ["-m", "crossbias", "sweep", str(path), "--out", str(out), "--on", "slurm"]
    with subprocess.Popen([sys.executable, *sweep], stderr=subprocess.DEVNULL) as driver:
        first_saved(out)
        driver.kill()
    assert len(queue()) == 2  # one runs, one waits
    runs = run_sweep(Plan.read(path), out, on="slurm")
    assert [run.state for run in runs] == ["finished"] * 2
    assert len(list((out / "slurm").glob("*_submitted.pkl"))) == 2  # none was submitted again
    for run in runs:
        config = json.loads((out / "runs" / run.name / "config.json").read_text())
        assert "resumes" not in config


def test_srun_starts_the_processes_of_one_training(slurm, tmp_path):
    train = ["-m", "crossbias", "train", "--data", "toy-2d", "--set", "data.size=64", "--quiet"]
    train += ["--set", "data.test_size=9", "--set", "train.optimizer=sgd", "--device", "cpu"]
    train += ["--set", "train.batch_size=16", "--epochs", "2", "--out"]
    for start, name in (([], "one"), (["srun", "--ntasks-per-node=2"], "two")):
        command = [*start, sys.executable, *train, str(tmp_path / name)]
        assert subprocess.check_output(command, text=True).count("run: ") == 1
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, rtol=0, atol=1e-6)


def test_tasks_that_are_not_counted_for_each_node_are_one_line(slurm, tmp_path):
    train = ["-m", "crossbias", "train", "--data", "toy-2d", "--device", "cpu", "--out"]
    command = ["srun", "--ntasks=2", sys.executable, *train, str(tmp_path / "run")]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    lines = [line for line in failed.stderr.splitlines() if line.startswith("crossbias: ")]
    assert len(lines) == 1
    assert "--ntasks-per-node" in lines[0]
    assert "Traceback" not in failed.stderr


def test_a_machine_without_slurm_is_one_line(plan_file, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CrossbiasError, match="there is no Slurm on this machine"):
        run_sweep(Plan.read(plan_file("")), tmp_path / "s", on="slurm")
    assert not (tmp_path / "s").exists()
