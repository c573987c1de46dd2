"""What is in Slurm's queue when the process that drives a sweep was killed, with programs that
stand for Slurm's."""

import json
from pathlib import Path

import pytest
from submitit.core.utils import JobPaths

from crossbias.sweep import Plan
from crossbias.sweep.slurm import SlurmExecutor

PROGRAMS = {
    "srun": "exit 1",
    "sbatch": "echo Submitted batch job 41",
    "squeue": 'cat "$SLURM_FAKE/queue"',
    "scancel": 'echo "$@" >>"$SLURM_FAKE/canceled"',
}


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Path:
    """A folder with the files ``queue``, which the test writes, and ``canceled``."""
    folder = tmp_path / "fake"
    folder.mkdir()
    for name, script in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    (folder / "queue").touch()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("SLURM_FAKE", str(folder))
    return folder


def array_of(folder: Path) -> str:
    """The name of the only array that was submitted."""
    (array,) = json.loads((folder / "slurm" / "arrays.json").read_text())
    return array


def submit(folder: Path, jobs) -> dict[str, str]:
    """Submit jobs as a new process would; the identifiers of those that it watches."""
    executor = SlurmExecutor(folder, jobs=1, options={"job_name": "my sweep"})
    executor.submit(jobs)
    return {name: job.job_id for name, job in executor._running.items()}


def test_jobs_in_the_queue_are_watched_and_the_others_are_submitted(slurm, plan_file, tmp_path):
    jobs = Plan.read(plan_file("seeds = [0, 1, 2]")).jobs()
    names = [job.name for job in jobs]
    assert list(submit(tmp_path, jobs).items()) == [
        (name, f"41_{number}") for number, name in enumerate(names)
    ]
    title = f"my sweep-{array_of(tmp_path)}"
    (slurm / "queue").write_text(f"40 of somebody else\n41_2 {title}\n41_0 {title}\n")
    found = submit(tmp_path, jobs)
    assert (found[names[0]], found[names[2]]) == ("41_0", "41_2")
    arrays = json.loads((tmp_path / "slurm" / "arrays.json").read_text())
    assert [*arrays.values()] == [names, [names[1]]]
    assert not (slurm / "canceled").exists()


def test_a_single_job_is_found_again_too(slurm, plan_file, tmp_path):
    jobs = Plan.read(plan_file("")).jobs()
    submit(tmp_path, jobs)
    (slurm / "queue").write_text(f"41 my sweep-{array_of(tmp_path)}\n")
    assert submit(tmp_path, jobs) == {jobs[0].name: "41"}
    array_of(tmp_path)  # no second one


def test_jobs_whose_task_was_never_written_are_canceled_and_submitted_again(
    slurm, plan_file, tmp_path, monkeypatch
):
    jobs = Plan.read(plan_file("seeds = [0, 1]")).jobs()

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(JobPaths, "move_temporary_file", killed)
        with pytest.raises(KeyboardInterrupt):
            submit(tmp_path, jobs)
    title = f"my sweep-{array_of(tmp_path)}"
    (slurm / "queue").write_text(f"40_0 {title}\n40_1 {title}\n")
    assert sorted(submit(tmp_path, jobs).values()) == ["41_0", "41_1"]
    assert (slurm / "canceled").read_text() == "40_0\n40_1\n"
