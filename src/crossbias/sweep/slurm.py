"""SlurmExecutor: each run a job of a Slurm array, through submitit."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.runs.files import read_json, write_json
from crossbias.sweep.job import Job, Outcome
from crossbias.sweep.worker import train_job

if TYPE_CHECKING:
    import submitit

_QUEUE_SECONDS = 2.0  # between two looks at the queue
_MOST_QUEUED = 1000  # Slurm's usual limit of an array
_TIMEOUTS = 1000  # after which a run is not put back into the queue
_LATE = 3  # looks after which a job that left the queue without a result is lost


class SlurmTask:
    """One run as submitit starts it.

    Before its time is up, or if it is preempted, Slurm sends SIGUSR2. The run then finishes its
    step and saves, and submitit puts it back into the queue, where it resumes.

    Args:
        job: The run.
        folder: The sweep's folder.
    """

    def __init__(self, job: Job, folder: Path) -> None:
        self.job, self.folder = job, folder

    def __call__(self) -> Outcome:
        """Train the run, or resume it."""
        requeue, noted = signal.getsignal(signal.SIGUSR2), []

        def save_and_end(number: int, frame: Any) -> None:
            noted.append(number)
            os.kill(os.getpid(), signal.SIGTERM)  # which the training understands

        signal.signal(signal.SIGUSR2, save_and_end)
        outcome = train_job(self.job, self.folder)
        signal.signal(signal.SIGUSR2, requeue)
        if noted and outcome.state == "stopped" and callable(requeue):
            requeue(signal.SIGUSR2, None)  # submitit's: requeues and exits
        return outcome

    def checkpoint(self) -> Any:
        """What submitit runs after it has put the job back into the queue."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


class SlurmExecutor:
    """The queue of a Slurm cluster whose nodes see the sweep's folder.

    Args:
        folder: The sweep's folder.
        jobs: How many runs to train at a time.
        options: Parameters of submitit's Slurm executor, such as ``partition``, ``time`` in
            minutes, ``gpus_per_node`` and ``cpus_per_task``.
    """

    def __init__(self, folder: Path, *, jobs: int, options: Mapping[str, Any]) -> None:
        if shutil.which("sbatch") is None:
            raise CrossbiasError(
                "there is no Slurm on this machine: it has no sbatch; use a login node of the "
                "cluster, or --on local"
            )
        check_installed("submitit", what="--on slurm")
        import submitit

        self.folder, self.jobs = folder.resolve(), jobs
        self._executor = submitit.SlurmExecutor(
            folder=self.folder / "slurm", max_num_timeout=_TIMEOUTS
        )
        given = {"job_name": "crossbias", "time": 60, "array_parallelism": jobs, **options}
        self._title = str(given["job_name"])
        try:
            self._executor.update_parameters(**given)
        except (TypeError, NameError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise CrossbiasError(f"[slurm] of the plan does not fit: {reason}") from error
        self._arrays = self.folder / "slurm" / "arrays.json"
        self._running: dict[str, submitit.Job[Outcome]] = {}
        self._missing: dict[str, int] = {}
        self._looked = 0.0
        self._stopping = False

    def room(self) -> int:
        """As many as may be in the queue; Slurm starts ``jobs`` of them at a time."""
        return max(_MOST_QUEUED - len(self._running), 0)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Put jobs into the queue as one array; those that are still in it are only watched."""
        from submitit import SlurmJob

        left = self._left()
        new = [job for job in jobs if job.name not in left]
        for job in jobs:
            if job.name in left:
                self._running[job.name] = SlurmJob(self.folder / "slurm", left[job.name])
        if not new:
            return
        array = secrets.token_hex(4)
        self._arrays.parent.mkdir(parents=True, exist_ok=True)
        # Written first: if this process is killed now, its jobs are found by the array's name.
        write_json(self._arrays, self._known() | {array: [job.name for job in new]})
        self._executor.update_parameters(job_name=f"{self._title}-{array}")
        try:
            with self._executor.batch():
                submitted = [self._executor.submit(SlurmTask(job, self.folder)) for job in new]
        except Exception as error:  # submitit's own errors: what sbatch printed
            reason = " ".join(str(error).split())[-300:]
            raise CrossbiasError(f"Slurm did not take the jobs: {reason}") from error
        self._running |= {job.name: each for job, each in zip(new, submitted, strict=True)}

    def ended(self, seconds: float) -> list[Outcome]:
        """Outcomes of jobs that left a result, and of those that left the queue without one."""
        time.sleep(seconds)
        outcomes = [
            self._result(name, job)
            for name, job in self._running.items()
            if job.paths.result_pickle.exists()
        ]
        if time.monotonic() - self._looked > _QUEUE_SECONDS:
            self._looked = time.monotonic()
            outcomes += self._lost({outcome.name for outcome in outcomes})
        for outcome in outcomes:
            del self._running[outcome.name]
        return outcomes

    def stop(self) -> None:
        """Cancel the jobs: those that run get SIGTERM and half a minute to save."""
        self._stopping = True
        for job in self._running.values():
            job.cancel(check=False)

    def close(self) -> None:
        """Jobs in the queue go on without this process."""

    def _known(self) -> dict[str, list[str]]:
        """The names of the runs of each array that was ever submitted, in their order."""
        return dict(read_json(self._arrays)) if self._arrays.exists() else {}

    def _left(self) -> dict[str, str]:
        """Identifiers of jobs that an earlier process put into the queue, by the run's name."""
        from submitit import SlurmJob

        arrays, found = self._known(), {}
        for number, title in self._queue().items():
            names = arrays.get(title.rpartition("-")[2])
            if names is None:
                continue
            job: SlurmJob[Outcome] = SlurmJob(self.folder / "slurm", number)
            if job.paths.submitted_pickle.exists():
                found[names[int(number.partition("_")[2] or 0)]] = number
            else:  # the process was killed before it had written what the job shall do
                job.cancel(check=False)
        return found

    def _result(self, name: str, job: "submitit.Job[Outcome]") -> Outcome:
        try:
            return job.result()
        except Exception as error:  # submitit's own errors, and those of the node
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return Outcome(name, "failed", f"{lines[-1]} (see {job.paths.stderr})")

    def _lost(self, known: set[str]) -> list[Outcome]:
        """Jobs that are neither in the queue nor have a result."""
        queued, lost = self._queue(), []
        for name, job in self._running.items():
            gone = job.job_id not in queued and not job.paths.result_pickle.exists()
            self._missing[name] = self._missing.get(name, 0) + 1 if gone else 0
            if self._missing[name] >= _LATE and name not in known:
                failed = Outcome(name, "failed", f"Slurm lost it; see {job.paths.stderr}")
                lost.append(Outcome(name, "stopped") if self._stopping else failed)
        return lost

    def _queue(self) -> dict[str, str]:
        """Names of all jobs in the queue by identifier, those of arrays one by one."""
        listing = ["squeue", "--noheader", "--array", "--format=%i %j"]
        found = subprocess.run(listing, capture_output=True, text=True, check=False)
        if found.returncode:
            raise CrossbiasError(f"Slurm does not answer: {found.stderr.strip()[-300:]}")
        lines = [line.partition(" ") for line in found.stdout.splitlines()]
        return {number: title.strip() for number, _, title in lines}
