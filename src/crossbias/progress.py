"""What a person sees of a training: a header, then a bar, or a line every half minute."""

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from crossbias.formatting import numbers_in_words, percent, visible
from crossbias.launch import rank

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

_LINE_SECONDS: Final = 30.0  # between two lines where nothing can be drawn over
_ESTIMATE_SECONDS: Final = 5.0  # of steps, from which the time left is estimated


class Progress:
    """Hears about a training; subclasses show it. This one is silent."""

    def header(self, lines: Sequence[str]) -> None:
        """A run begins; ``lines`` say what is trained, on what and how."""

    def prepare(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` images are ready to train on; ``what`` names them."""

    def begin(self, stage: str, epochs: int, epoch_steps: int) -> None:
        """A training starts, or continues after an interruption."""

    def advance(self, epoch: int, step: int, losses: dict[str, float], rate: float) -> None:
        """Some steps are done, at ``rate`` samples a second. Called about twice a second."""

    def end_epoch(self, record: dict[str, Any]) -> None:
        """An epoch is done; ``record`` is its line of the log."""

    def note(self, text: str) -> None:
        """Something a person should know, such as a stage that is skipped."""

    def close(self) -> None:
        """The training, or the reading of data, ended or failed."""


class LineProgress(Progress):
    """Prints a line every half minute and at the end of each stage.

    Args:
        console: Where to print.
        clock: Tells the time in seconds.
    """

    def __init__(self, console: "Console", clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self._clock = console, clock
        self.stage, self.epochs, self.epoch_steps, self.validation = "", 0, 0, ""
        self._header: Sequence[str] = ()  # what is still to be printed of it
        self._printed = clock()  # time of the last line
        self._first: tuple[int, float] | None = None  # steps done and time, early in the stage

    def header(self, lines: Sequence[str]) -> None:
        """Print the header as soon as something happens: a refused run is one line."""
        self._header = lines

    def prepare(self, what: str, done: int, total: int) -> None:
        """Print a line if it is time for one."""
        if self._is_due():
            self._print(f"{what}: {done:,} of {total:,}")

    def begin(self, stage: str, epochs: int, epoch_steps: int) -> None:
        """Print the header; remember what is trained."""
        if self._header:
            self._print()
        self.stage, self.epochs, self.epoch_steps = stage, epochs, epoch_steps
        self.validation, self._first = "", None

    def advance(self, epoch: int, step: int, losses: dict[str, float], rate: float) -> None:
        """Print a line if it is time for one, or if the time left can be told at last."""
        unknown = self._first is None or self._printed < self._first[1]
        left = self._seconds_left(epoch * self.epoch_steps + step)
        if self._is_due() or (unknown and left is not None and left > _LINE_SECONDS):
            where = f"{self.stage} {epoch + 1}/{self.epochs}, step {step}/{self.epoch_steps}"
            self._print("  ".join([where, self._told(rate, losses), *_in_words(left)]))

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Print the epoch's line if it is time for one, and that of the last epoch."""
        line = self._line(record)
        left = self._seconds_left(record["epoch"] * self.epoch_steps)
        if record["epoch"] == self.epochs:
            self._print(line)
        elif self._is_due():
            self._print("  ".join([line, *_in_words(left)]))

    def note(self, text: str) -> None:
        """Print the note."""
        self._print(text)

    def _is_due(self) -> bool:
        return self._clock() - self._printed >= _LINE_SECONDS

    def _seconds_left(self, done: int) -> float | None:
        """The rest of the stage at the pace so far; None before there are enough steps."""
        now = self._clock()
        self._first = self._first or (done, now)
        steps, seconds = done - self._first[0], now - self._first[1]
        if not steps or seconds < _ESTIMATE_SECONDS:
            return None
        return seconds / steps * (self.epochs * self.epoch_steps - done)

    def _line(self, record: dict[str, Any]) -> str:
        """The line of an epoch; the steps that follow repeat its validation."""
        if record["validation"]:
            self.validation = f"  {_validation(record['validation'])}"
        told = self._told(record["samples_per_second"], record["losses"])
        return f"{self.stage} {record['epoch']}/{self.epochs}  {told}"

    def _told(self, rate: float, losses: dict[str, float]) -> str:
        return f"{rate:,.0f} samples/s{self.validation}  {numbers_in_words(losses)}"

    def _print(self, *texts: str) -> None:
        text, self._header = "\n".join(map(visible, [*self._header, *texts])), ()
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        self._printed = self._clock()


class BarProgress(LineProgress):
    """Draws a bar for the training at hand; each stage leaves its last line standing."""

    def __init__(self, console: "Console") -> None:
        super().__init__(console)
        self.bar: Bar | None = None

    def prepare(self, what: str, done: int, total: int) -> None:
        """Move the bar; take it away when everything is ready."""
        if self.bar is None:
            self._open(what, total)
        self._move(done, what, "")
        if done == total:
            self.close()

    def begin(self, stage: str, epochs: int, epoch_steps: int) -> None:
        """Show the bar."""
        super().begin(stage, epochs, epoch_steps)
        self.close()
        self._open(stage, epochs * epoch_steps)

    def advance(self, epoch: int, step: int, losses: dict[str, float], rate: float) -> None:
        """Move the bar and show the losses so far."""
        where = f"{self.stage} {epoch + 1}/{self.epochs}"
        self._move(epoch * self.epoch_steps + step, where, self._told(rate, losses))

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Remember the validation; leave the last epoch's line standing."""
        line = self._line(record)
        if record["epoch"] == self.epochs:
            self.close()
            self._print(line)

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _open(self, what: str, total: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = [
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}", markup=False),
        ]
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.bar.add_task(visible(what), total=total, told="")
        self.bar.start()

    def _move(self, done: int, what: str, told: str) -> None:
        if self.bar is not None:
            (task,) = self.bar.task_ids
            self.bar.update(task, completed=done, description=visible(what), told=told)


def shown_progress(*, quiet: bool = False) -> Progress:
    """A bar on a terminal or in a notebook, lines of text elsewhere, or nothing.

    Only the first of several processes shows anything.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or rank() > 0:
        return Progress()
    drawable = console.is_terminal
    if console.is_jupyter:  # where rich draws with widgets, if they are there
        drawable = importlib.util.find_spec("ipywidgets") is not None
    return BarProgress(console) if drawable else LineProgress(console)


def _in_words(seconds: float | None) -> list[str]:
    """The time left in a stage, as far as it is known."""
    if seconds is None:
        return []
    minutes = round(seconds / 60)
    if minutes < 2:
        return ["less than 2 minutes left"]
    hours = minutes / 60
    return [f"about {minutes} minutes left" if hours < 2 else f"about {hours:.0f} hours left"]


def _validation(values: dict[str, float]) -> str:
    named = {"accuracy": "validation", "conflicting": "conflicting"}
    return ", ".join(
        f"{named[name]} {percent(value)}" for name, value in values.items() if name in named
    )
