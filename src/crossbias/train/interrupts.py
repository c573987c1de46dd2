"""Ctrl-C and SIGTERM as a request: finish the step, save, say how to continue."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from crossbias.errors import Interrupted


class Interrupts:
    """While active, the first SIGINT or SIGTERM is noted; a second SIGINT stops at once."""

    def __init__(self) -> None:
        self.requested: str | None = None
        self._handlers: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._handlers.clear()

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.requested is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name


@contextmanager
def stops_at_once(remedy: str, noted: str | None = None) -> Iterator[None]:
    """Inside this, SIGINT and SIGTERM raise ``Interrupted`` at once; the error ends in a remedy.

    ``noted`` names a signal that came before and was not heeded yet.
    """

    def stop_on(name: str) -> None:
        raise Interrupted(f"stopped on request ({name}) while judging the network; {remedy}")

    def stop(number: int, _: FrameType | None) -> None:
        stop_on(signal.Signals(number).name)

    if noted is not None:
        stop_on(noted)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
