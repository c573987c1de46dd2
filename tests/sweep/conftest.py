"""Plans of runs that take no time."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

TINY = """
[data]
name = "toy-2d"
size = 12
test_size = 9
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write a plan; tiny data unless the text names other data."""

    def written(text: str) -> Path:
        path = tmp_path / "plan.toml"
        path.write_text(text if "[data]" in text else text + TINY)
        return path

    return written


class Here:
    """A backend that trains in this process, one run after the other."""

    def __init__(self, folder: Path, jobs: int = 1) -> None:
        self.folder, self.jobs = folder, jobs
        self.submitted: list[str] = []
        self._outcomes: list = []

    def room(self) -> int:
        return self.jobs - len(self._outcomes)

    def submit(self, jobs: Sequence) -> None:
        from crossbias.sweep.worker import train_job

        self.submitted += [job.name for job in jobs]
        self._outcomes += [train_job(job, self.folder) for job in jobs]

    def ended(self, seconds: float) -> list:
        found, self._outcomes = self._outcomes, []
        return found

    def stop(self) -> None:
        """Nothing runs while this is called."""

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def here(monkeypatch) -> list[Here]:
    """Let every sweep train in this process; the backends that were made."""
    made: list[Here] = []

    def make(plan, folder, on, jobs, address) -> Here:
        made.append(Here(folder.path, jobs))
        return made[-1]

    monkeypatch.setattr("crossbias.sweep.running._executor", make)
    return made
