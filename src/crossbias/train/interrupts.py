"""Ctrl-C and SIGTERM as a request: finish the step, save, say how to continue."""

import signal
import threading
from types import FrameType


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
