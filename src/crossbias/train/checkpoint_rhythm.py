"""When checkpoints are written: not after every epoch, where an epoch is shorter than that."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_REST: Final = 9.0  # times as long as the last one took: a tenth of the time goes into checkpoints
_CHEAP: Final = 0.1  # seconds that nobody waits for


class CheckpointRhythm:
    """Leaves at least nine tenths of the time to training.

    A checkpoint holds a network and its optimizer. With a large network on small data, writing one
    can take longer than an epoch. A killed process loses an epoch and nine times the writing.

    Args:
        clock: Tells the time in seconds.

    >>> times = iter([0.0, 2.0, 10.0, 20.0])
    >>> rhythm = CheckpointRhythm(clock=lambda: next(times))
    >>> with rhythm.writing():
    ...     pass  # from 0 to 2
    >>> rhythm.is_due(), rhythm.is_due()  # at 10, and at 20
    (False, True)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._took, self._ended = clock, 0.0, -math.inf

    def is_due(self) -> bool:
        """Whether the next checkpoint may be written."""
        return self._took < _CHEAP or self._clock() - self._ended >= _REST * self._took

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Notice how long the writing of a checkpoint takes."""
        began = self._clock()
        yield
        self._ended = self._clock()
        self._took = self._ended - began
