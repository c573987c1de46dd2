"""Follower: hands a run's records to one tracker, in a thread of its own.

The training never waits for a tracker, and what a tracker raises ends its thread only.
"""

import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.runs.files import read_json, write_json
from crossbias.tracking.tracker import Outcome, Tracker

_Task = Callable[[], None]


class Follower:
    """One tracker of one run.

    Args:
        name: The tracker's name, for messages.
        tracker: The tracker.
        kept: File that remembers the tracker's run and how many epochs of each stage it has, so
            that a resume continues there; None remembers nothing.

    Attributes:
        messages: Lines for a person that nobody has shown yet.
    """

    def __init__(self, name: str, tracker: Tracker, kept: Path | None) -> None:
        self.name, self.messages = name, list[str]()
        self._tracker, self._kept = tracker, kept
        self._run, self._epochs = _remembered(kept)
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        # A daemon: a tracker that never answers does not keep the process alive.
        self._thread = threading.Thread(target=self._work, name=f"log to {name}", daemon=True)
        self._thread.start()

    def start(self, config: Mapping[str, Any], *, quiet: bool) -> None:
        """Begin the tracker's run, or continue it; say where it is unless ``quiet``."""
        self._tasks.put(lambda: self._start(config, quiet))

    def stage(self, name: str) -> None:
        """Tell of a stage, unless the tracker knows it."""
        self._tasks.put(lambda: self._stage(name))

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Pass an epoch on, unless the tracker has it."""
        self._tasks.put(lambda: self._epoch(record))

    def results(self, split: str, numbers: Mapping[str, float]) -> None:
        """Pass results on."""
        self._tasks.put(lambda: self._tracker.results(split, numbers))

    def end(self, outcome: Outcome, reason: str, *, patience: float) -> None:
        """End the tracker's run; wait so many seconds at most."""
        self._tasks.put(lambda: self._tracker.end(outcome, reason))
        self._tasks.put(None)
        self._thread.join(patience)
        if self._thread.is_alive():
            self.messages.append(
                f"warning: {self.name} has not taken all records after {patience:g} s; the run "
                f"goes on without it"
            )

    def _work(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                task()
        except BaseException as error:  # also what a library raises to leave the process
            text = " ".join(str(error).split()) or "no message"
            self.messages.append(
                f"warning: {self.name} failed ({type(error).__name__}: {text[:300]}); the run "
                f"goes on without it"
            )

    def _start(self, config: Mapping[str, Any], quiet: bool) -> None:
        started = self._tracker.start(config, self._run)
        self._run = started.id
        self._remember()
        if not quiet:
            self.messages.append(f"logging to {started.where}")

    def _stage(self, name: str) -> None:
        if name not in self._epochs:
            self._tracker.stage(name)
            self._epochs[name] = 0
            self._remember()

    def _epoch(self, record: Mapping[str, Any]) -> None:
        stage = record["stage"]
        self._stage(stage)
        if record["epoch"] > self._epochs[stage]:
            self._tracker.epoch(record, sum(self._epochs.values()))
            self._epochs[stage] = record["epoch"]
            self._remember()

    def _remember(self) -> None:
        if self._kept is not None:
            self._kept.parent.mkdir(exist_ok=True)
            write_json(self._kept, {"run": self._run, "epochs": self._epochs})


def _remembered(kept: Path | None) -> tuple[str | None, dict[str, int]]:
    """The tracker's run and its epochs of each stage; a damaged file begins a new run."""
    if kept is not None and kept.exists():
        with suppress(CrossbiasError):
            found = read_json(kept)
            run, epochs = (found.get(part) if isinstance(found, dict) else None
                           for part in ("run", "epochs"))  # fmt: skip
            if isinstance(run, str) and isinstance(epochs, dict):
                return run, epochs
    return None, {}
