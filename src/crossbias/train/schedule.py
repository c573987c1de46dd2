"""Learning rates as a pure function of the epoch, so that a resumed run needs no state."""

import math

from crossbias.train.config import TrainConfig


def learning_rate(config: TrainConfig, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch, counted from 0, in a training of so many epochs.

    >>> config = TrainConfig(lr=1.0, schedule="step", decay=0.5, decay_epochs=2)
    >>> [learning_rate(config, epoch, 6) for epoch in range(6)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    """
    if config.schedule == "step":
        return config.lr * config.decay ** (epoch // config.decay_epochs)
    if config.schedule == "milestones":
        passed = sum(epoch >= milestone * epochs for milestone in config.milestones)
        return config.lr * config.decay**passed
    if config.schedule == "cosine":
        return config.lr * (1 + math.cos(math.pi * epoch / epochs)) / 2
    return config.lr
