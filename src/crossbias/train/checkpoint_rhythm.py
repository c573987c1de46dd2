"""When checkpoints are written: not after every epoch, where an epoch is shorter than that."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_REST: Final = 9.0  # times as long as the last one took: that is a tenth of the time
_LONGEST_REST: Final = 600.0  # seconds, whatever stopped the last one, such as a suspended process
_CHEAP: Final = 0.1  # seconds that nobody waits for


class CheckpointRhythm:
    """Leaves nine tenths of the time to training, between a stage's first and last checkpoint.

    A checkpoint holds a network and its optimizer. With a large network on small data, writing one
    can take longer than an epoch. Where writing takes less than a tenth of a second, there is one
    after every epoch. Else a killed process loses at most an epoch and nine times the writing, and
    never more than an epoch and ten minutes.

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
        rest = min(_REST * self._took, _LONGEST_REST)
        return self._took < _CHEAP or self._clock() - self._ended >= rest

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Notice how long the writing of a checkpoint takes."""
        began = self._clock()
        yield
        self._ended = self._clock()
        self._took = self._ended - began
