"""What a training tells while it runs: silent by default, a bar on a terminal or in a notebook."""

import importlib.util
from typing import TYPE_CHECKING, Any

from crossbias.formatting import numbers_in_words, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar


class Progress:
    """Hears about a training; subclasses show it. This one is silent."""

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
    """Prints one line for each epoch, where nothing can be drawn over."""

    def __init__(self, console: "Console") -> None:
        self.console = console
        self.stage, self.epochs, self.tenth = "", 0, 0

    def prepare(self, what: str, done: int, total: int) -> None:
        """Print a line at every tenth."""
        tenth = 10 * done // total
        if tenth != self.tenth:
            self._print(f"{what}: {done:,} of {total:,}")
        self.tenth = tenth % 10  # after the last tenth, the next data set begins

    def begin(self, stage: str, epochs: int, epoch_steps: int) -> None:
        """Remember what is trained."""
        self.stage, self.epochs = stage, epochs

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Print the epoch's line."""
        self._print(self._line(record))

    def note(self, text: str) -> None:
        """Print the note."""
        self._print(text)

    def _line(self, record: dict[str, Any]) -> str:
        pace = f"{record['samples_per_second']:,.0f} samples/s"
        parts = [f"{self.stage} {record['epoch']}/{self.epochs}", pace]
        parts += [_validation(record["validation"])] if record["validation"] else []
        return "  ".join([*parts, numbers_in_words(record["losses"])])

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class BarProgress(LineProgress):
    """Draws a bar for the training at hand; each stage leaves its last line standing."""

    def __init__(self, console: "Console") -> None:
        super().__init__(console)
        self.bar: Bar | None = None
        self.epoch_steps, self.validation = 0, ""

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
        self.epoch_steps, self.validation = epoch_steps, ""
        self.close()
        self._open(stage, epochs * epoch_steps)

    def advance(self, epoch: int, step: int, losses: dict[str, float], rate: float) -> None:
        """Move the bar and show the losses so far."""
        told = f"{rate:,.0f} samples/s{self.validation}  {numbers_in_words(losses)}"
        where = f"{self.stage} {epoch + 1}/{self.epochs}"
        self._move(epoch * self.epoch_steps + step, where, told)

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Remember the validation; leave the last epoch's line standing."""
        if record["validation"]:
            self.validation = f"  {_validation(record['validation'])}"
        if record["epoch"] == self.epochs:
            self.close()
            self._print(self._line(record))

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
        self.bar.add_task(what, total=total, told="")
        self.bar.start()

    def _move(self, done: int, what: str, told: str) -> None:
        if self.bar is not None:
            (task,) = self.bar.task_ids
            self.bar.update(task, completed=done, description=what, told=told)


def shown_progress(*, quiet: bool = False) -> Progress:
    """A bar on a terminal or in a notebook, lines of text elsewhere, or nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet:
        return Progress()
    drawable = console.is_terminal
    if console.is_jupyter:  # where rich draws with widgets, if they are there
        drawable = importlib.util.find_spec("ipywidgets") is not None
    return BarProgress(console) if drawable else LineProgress(console)


def _validation(values: dict[str, float]) -> str:
    named = {"accuracy": "validation", "conflicting": "conflicting"}
    return ", ".join(
        f"{named[name]} {percent(value)}" for name, value in values.items() if name in named
    )
