"""RayExecutor: each run a task of a Ray cluster."""

import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.sweep.job import Job, Outcome
from crossbias.sweep.worker import train_job

_ANSWER_SECONDS = 5.0  # that a cluster has to answer
_RETRIES = 3  # of a run whose worker or node dies


class RayExecutor:
    """An existing Ray cluster, or one of this machine; its nodes see the sweep's folder.

    Ray starts a run again if its worker or node dies, and the run resumes there.

    Args:
        folder: The sweep's folder.
        jobs: How many runs to hand to Ray at a time.
        address: ``host:port`` of the cluster; one is started on this machine if None.
        options: ``num_cpus`` and ``num_gpus`` of a run, and other options of a Ray task.
    """

    def __init__(
        self, folder: Path, *, jobs: int, address: str | None, options: Mapping[str, Any]
    ) -> None:
        check_installed("ray", what="--on ray")
        import ray

        self.folder, self.jobs = folder.resolve(), jobs
        _check_answers(address)
        try:
            if address is None:
                ray.init(num_cpus=jobs, log_to_driver=False, include_dashboard=False)
            else:
                ray.init(address=address, log_to_driver=False)
            self._task = ray.remote(train_job).options(
                **{"num_cpus": 1, "max_retries": _RETRIES, **options}
            )
        except (ConnectionError, RuntimeError, TimeoutError) as error:
            raise CrossbiasError(f"the Ray cluster at {address} refuses: {error}") from error
        except (TypeError, ValueError) as error:
            raise CrossbiasError(f"[ray] of the plan does not fit: {error}") from error
        self._running: dict[Any, str] = {}

    def room(self) -> int:
        """Up to ``jobs`` runs wait or run; Ray decides where."""
        return max(self.jobs - len(self._running), 0)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hand jobs to Ray."""
        for job in jobs:
            self._running[self._task.remote(job, self.folder)] = job.name

    def ended(self, seconds: float) -> list[Outcome]:
        """Outcomes of tasks that ended, or that Ray gave up."""
        import ray

        if not self._running:
            time.sleep(seconds)
            return []
        done, _ = ray.wait(list(self._running), num_returns=1, timeout=max(seconds, 0.01))
        return [self._outcome(reference) for reference in done]

    def stop(self) -> None:
        """Interrupt the tasks: those that run save and end, the others are dropped."""
        import ray

        for reference in self._running:
            ray.cancel(reference, force=False)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        import ray

        with contextlib.suppress(Exception):
            ray.shutdown()

    def _outcome(self, reference: Any) -> Outcome:
        import ray

        name = self._running.pop(reference)
        try:
            outcome: Outcome = ray.get(reference)
        except ray.exceptions.TaskCancelledError:
            return Outcome(name, "stopped")
        except ray.exceptions.RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            return Outcome(name, "failed", f"Ray gave up: {(lines or [type(error).__name__])[0]}")
        return outcome


def _check_answers(address: str | None) -> None:
    """Refuse an address behind which nothing listens; Ray itself waits for minutes."""
    if address is None or address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _ANSWER_SECONDS):
            return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CrossbiasError(
            f"no Ray cluster answers at {address!r} ({reason}); start one with `ray start --head "
            f"--port 6379` and give its address as host:6379"
        ) from error
