"""Trackers: all tools that a run is logged to, and what they may do to it: nothing."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from crossbias.errors import CrossbiasError, Interrupted
from crossbias.extras import check_installed
from crossbias.parameters import unknown
from crossbias.runs.folder import RunFolder, as_record
from crossbias.runs.rows import METRICS
from crossbias.tracking.follower import Follower
from crossbias.tracking.tracker import Outcome, Tracker, told
from crossbias.verify import Metrics

TRACKERS: Final = {
    "tensorboard": "crossbias.tracking.to_tensorboard:TensorBoardTracker",
    "wandb": "crossbias.tracking.to_wandb:WandbTracker",
    "mlflow": "crossbias.tracking.to_mlflow:MLflowTracker",
}
"""The class behind each name; its module is imported when it is asked for."""

_PATIENCE: Final = 30.0  # seconds that the end of a run waits for all trackers together


def check_trackers(names: Sequence[str], folder: Path | str | None) -> None:
    """Refuse names that cannot be logged to, before anything is trained or written."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("there is no log", name, TRACKERS)
        check_installed(name, what=f"the log {name!r}")
    if "tensorboard" in names and folder is None:
        raise CrossbiasError(
            "the log 'tensorboard' is written to the run folder, and the run has none; pass folder="
        )


class Trackers:
    """The trackers of one run. They start with the first stage; without names nothing happens.

    A tracker that fails is left out with one line of warning. A resumed run continues the
    trackers it was started with, and gives each the epochs that it lacks.

    Args:
        names: Names from ``TRACKERS``.
        folder: The run folder, if there is one.
        config: What ``config.json`` holds.
        note: Shows a line to a person.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        *,
        folder: RunFolder | None = None,
        config: Mapping[str, Any] | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        before = [] if folder is None else [path.stem for path in folder.tracking.glob("*.json")]
        self._names = list(dict.fromkeys([*names, *sorted(set(before) & set(TRACKERS))]))
        self._folder, self._config, self._note = folder, config or {}, note
        self._followers: list[Follower] | None = None  # None before the start and after the end
        self._known = False  # whether a person knows where the run is logged to

    def stage(self, name: str) -> None:
        """A stage begins, or continues after an interruption."""
        for follower in self._started():
            follower.stage(name)
        self._show()

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is done; ``record`` is its line of the log."""
        for follower in self._started():
            follower.epoch(record)
        self._show()

    def results(self, split: str, metrics: Metrics) -> None:
        """The network was judged; after the end of a run the trackers are opened once more."""
        ended = self._followers is None
        for follower in self._started():
            follower.results(split, _with_limits(metrics))
        if ended:
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        """The run ended, by an error if there is one."""
        outcome: Outcome = "finished" if error is None else "failed"
        if isinstance(error, Interrupted | KeyboardInterrupt):
            outcome = "stopped"
        latest = time.monotonic() + _PATIENCE
        for follower in self._followers or ():
            left = max(0.0, latest - time.monotonic())
            follower.end(outcome, "" if error is None else str(error), patience=left)
        self._show()
        self._followers = None

    @contextmanager
    def ended_on_error(self) -> Iterator[None]:
        """End the trackers' runs if what is inside fails."""
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise

    def _started(self) -> list[Follower]:
        if self._followers is None:
            made = [self._follower(name) for name in self._names]
            self._followers = [follower for follower in made if follower is not None]
            past = _logged(self._folder) if self._followers else []
            for follower in self._followers:
                follower.start(told(self._config), quiet=self._known)
                for record in past:
                    follower.epoch(record)
            self._known = True
        return self._followers

    def _follower(self, name: str) -> Follower | None:
        """The follower with its tracker, whose library is imported here, in the main thread."""
        folder = None if self._folder is None else self._folder.path
        kept = None if self._folder is None else self._folder.tracking / f"{name}.json"
        title = self._config["method"]["name"] if folder is None else folder.name
        module, _, kind = TRACKERS[name].partition(":")
        try:
            tracker: Tracker = getattr(import_module(module), kind)(title, folder)
        except Exception as error:
            self._names.remove(name)
            self._note(f"warning: {name} failed ({error}); the run goes on without it")
            return None
        return Follower(name, tracker, kept)

    def _show(self) -> None:
        for follower in self._followers or ():
            while follower.messages:
                self._note(follower.messages.pop(0))


def _logged(folder: RunFolder | None) -> list[dict[str, Any]]:
    """What earlier processes logged; a damaged line is left out."""
    if folder is None or not folder.log.exists():
        return []
    lines = folder.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [record for line in lines if (record := as_record(line))]


def _with_limits(metrics: Metrics) -> dict[str, float]:
    """Every number that the metrics have, and the limits of its interval."""
    found = {}
    for name, read in METRICS.items():
        estimate = read(metrics)
        if estimate is not None and estimate.n:
            found[name] = estimate.value
            found |= {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return found
