"""How long to train the first of two networks, whose mistakes lead the second."""

import math
from typing import Final

from crossbias.train.config import TrainConfig

# On small data a part of the training is a few dozen updates, in which a network of usual depth
# learns no shortcut: tables/shortcuts.toml has sets whose whole training is 240 updates.
LEAST_STEPS: Final = 200


def first_length(config: TrainConfig, total: int, *, part: float) -> tuple[int | None, int | None]:
    """A part of the configured training, but at least 200 steps or the whole of it.

    Args:
        config: The configuration of the run.
        total: Number of steps of the configured training.
        part: The part.

    Returns:
        The length in epochs or in steps, in which the configuration has it; the other is ``None``.

    >>> first_length(TrainConfig(epochs=10), 10_000, part=0.25)
    (3, None)
    >>> first_length(TrainConfig(steps=240), 240, part=0.25)
    (None, 200)
    """
    part = max(part, min(1.0, LEAST_STEPS / total))
    if config.steps is not None:
        return None, math.ceil(config.steps * part)
    return math.ceil(config.epochs * part), None
