"""Training on the terminal: one live line, or plain lines where there is no terminal."""

import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from crossbias.train.meter import in_words
from crossbias.train.progress import Progress


class PlainProgress(Progress):
    """One line an epoch."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.stage, self.epochs, self.tenth = "", 0, 0

    def prepare(self, what: str, done: int, total: int) -> None:
        """Print a line at every tenth."""
        tenth = 10 * done // total
        if tenth != self.tenth:
            self._print(f"{what}: {done:,} of {total:,}")
        self.tenth = tenth % 10  # after the last, the next data set begins

    def begin(self, stage: str, epochs: int, epoch_steps: int) -> None:
        """Remember what is trained."""
        self.stage, self.epochs = stage, epochs

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Print the epoch's line."""
        self._print(self._line(record))

    def note(self, text: str) -> None:
        """Print it."""
        self._print(text)

    def _line(self, record: dict[str, Any]) -> str:
        pace = f"{record['samples_per_second']:,.0f} samples/s"
        parts = [f"{self.stage} {record['epoch']}/{self.epochs}", pace]
        parts += [_validation(record["validation"])] if record["validation"] else []
        return "  ".join([*parts, in_words(record["losses"])])

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveProgress(PlainProgress):
    """One line that changes in place; only a stage's last one stays."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.live: Live | None = None
        self.line = self.validation = ""
        self.first: tuple[float, int] | None = None  # time and finished steps of the first look

    def prepare(self, what: str, done: int, total: int) -> None:
        """Change the line; take it away when all is done."""
        if self.live is None:
            self._open()
        self._show(f"{what}: {done:,} of {total:,}")
        if done == total:
            self.close()

    def begin(self, stage: str, epochs: int, epoch_steps: int) -> None:
        """Show the line."""
        super().begin(stage, epochs, epoch_steps)
        self.epoch_steps, self.first, self.validation = epoch_steps, None, ""
        self.close()
        self._open()

    def advance(self, epoch: int, step: int, losses: dict[str, float], rate: float) -> None:
        """Change the line."""
        left = self._left(epoch * self.epoch_steps + step)
        pace = f"{self.stage} {epoch + 1}/{self.epochs}{left}  {rate:,.0f} samples/s"
        self._show(f"{pace}{self.validation}  {in_words(losses)}")

    def end_epoch(self, record: dict[str, Any]) -> None:
        """Remember the validation; leave the last epoch's line standing."""
        if record["validation"]:
            self.validation = f"  {_validation(record['validation'])}"
        self._show(self._line(record))
        if record["epoch"] == self.epochs:
            self.close()
            self._print(self._line(record))

    def close(self) -> None:
        """Take the live line away."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _open(self) -> None:
        self.live = Live(console=self.console, transient=True, refresh_per_second=4)
        self.live.start()

    def _show(self, line: str) -> None:
        self.line = line
        if self.live is not None:
            self.live.update(Text(line, overflow="ellipsis", no_wrap=True))

    def _left(self, done: int) -> str:
        """Time left, at the pace since the first look."""
        now = time.monotonic()
        self.first = self.first or (now, done)
        start, before = self.first
        if done == before:
            return ""
        seconds = int((now - start) * (self.epochs * self.epoch_steps - done) / (done - before))
        return f"  {seconds // 60}:{seconds % 60:02d} left"


def _validation(values: dict[str, float]) -> str:
    shown = {"accuracy": "validation", "conflicting": "conflicting"}
    return ", ".join(
        f"{shown[name]} {100 * value:.1f} %" for name, value in values.items() if name in shown
    )
