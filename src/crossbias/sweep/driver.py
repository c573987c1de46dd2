"""drive: hand jobs to a backend until all have ended, and remember how."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from crossbias.errors import Interrupted
from crossbias.formatting import duration
from crossbias.progress import Progress
from crossbias.runs.sweeps import SweepFolder
from crossbias.sweep.executor import Executor
from crossbias.sweep.job import Job, Outcome
from crossbias.train.interrupts import Interrupts

_LOOK_SECONDS = 0.5  # between two looks for a request to stop
_ATTEMPTS = 10  # of a run that something else than this sweep stops, such as a preemption


class Jobs(Protocol):
    """Where jobs come from: a list of them, or a search that draws them one by one."""

    def next(self) -> Job | None:
        """The next job; None if there is none now."""

    def tell(self, outcome: Outcome) -> None:
        """Hear how a job ended."""

    @property
    def left(self) -> int:
        """How many jobs are still to be handed out."""


class JobList:
    """Jobs that are known from the start."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = deque(jobs)

    def next(self) -> Job | None:
        """The next job."""
        return self._jobs.popleft() if self._jobs else None

    def tell(self, outcome: Outcome) -> None:
        """Nothing follows from how a job ended."""

    @property
    def left(self) -> int:
        """Jobs that were not handed out."""
        return len(self._jobs)


def drive(jobs: Jobs, folder: SweepFolder, executor: Executor, progress: Progress) -> None:
    """Train jobs until all have ended.

    Raises:
        Interrupted: Somebody asked to stop; runs that had begun are saved.
    """
    started, running, ended = time.monotonic(), dict[str, Job](), 0
    again: deque[Job] = deque()
    attempts: dict[str, int] = {}
    stopping = ""
    with Interrupts() as interrupts:
        while True:
            room = 0 if stopping else executor.room()
            batch = _take(again, jobs, room)
            if batch:
                executor.submit(batch)
                running |= {job.name: job for job in batch}
            if not running and not batch:
                break
            for outcome in executor.ended(0 if room and batch else _LOOK_SECONDS):
                job = running.pop(outcome.name)
                attempts[job.name] = attempts.get(job.name, 0) + 1
                if outcome.state == "stopped" and not stopping and attempts[job.name] < _ATTEMPTS:
                    again.append(job)  # a scheduler took its place away
                    continue
                ended += 1
                _keep(outcome, folder)
                jobs.tell(outcome)
                _say(outcome, ended, len(running) + len(again) + jobs.left, started, progress)
            if not stopping and (stopping := _stop_request(interrupts, folder)):
                progress.note(f"stopping on request ({stopping}): runs save and end")
                executor.stop()
    if stopping:
        raise Interrupted(
            f"the sweep was stopped on request ({stopping}); the same command continues it"
        )


def _stop_request(interrupts: Interrupts, folder: SweepFolder) -> str:
    """Who asked to stop: a signal, or ``--stop``; empty if nobody did."""
    return interrupts.requested or ("--stop" if folder.stop_request.exists() else "")


def _take(again: deque[Job], jobs: Jobs, room: int) -> list[Job]:
    """So many jobs, those that were stopped by others first."""
    found: list[Job] = []
    while len(found) < room:
        job = again.popleft() if again else jobs.next()
        if job is None:
            break
        found.append(job)
    return found


def _keep(outcome: Outcome, folder: SweepFolder) -> None:
    if outcome.state == "failed":
        folder.keep_failure(outcome.name, outcome.line)
    else:
        folder.forget_failure(outcome.name)


def _say(outcome: Outcome, ended: int, left: int, started: float, progress: Progress) -> None:
    line = f": {outcome.line}" if outcome.line else ""
    time_left = duration((time.monotonic() - started) / ended * left) if left else ""
    rest = f"  {left} left, about {time_left}" if left else ""
    progress.note(f"{outcome.state:8} {outcome.name}{line}{rest}")
