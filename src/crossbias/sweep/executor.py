"""Executor: where the runs of a sweep are trained; and what every backend must do."""

from collections.abc import Sequence
from typing import Protocol

from crossbias.sweep.job import Job, Outcome


class Executor(Protocol):
    """A backend. It knows nothing about the sweep but the jobs that it is handed."""

    def room(self) -> int:
        """How many more jobs it takes now."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs, or put them into the backend's queue."""

    def ended(self, seconds: float) -> list[Outcome]:
        """The jobs that ended since the last call; waits at most so many seconds for one."""

    def stop(self) -> None:
        """Ask running jobs to save and end, and drop those that have not begun.

        ``ended`` tells of all of them, as of any others.
        """

    def close(self) -> None:
        """Release what the backend holds; jobs of a queue that outlives this process go on."""
