"""What a training tells while it runs. Silent by default; the command line draws it."""

from typing import Any


class Progress:
    """Hears about a training; subclasses show it. This one is silent."""

    def prepare(self, what: str, done: int, total: int) -> None:
        """Of the data, ``done`` of ``total`` images are ready; ``what`` names them."""

    def begin(self, stage: str, epochs: int, epoch_steps: int) -> None:
        """A training starts, or goes on after an interruption."""

    def advance(self, epoch: int, step: int, losses: dict[str, float], rate: float) -> None:
        """Some steps are done; ``rate`` is samples a second. Called about twice a second."""

    def end_epoch(self, record: dict[str, Any]) -> None:
        """An epoch is done; ``record`` is its line of the log."""

    def note(self, text: str) -> None:
        """Something a person should know, such as a stage that is skipped."""

    def close(self) -> None:
        """Training, or the reading of data, ended or failed."""
