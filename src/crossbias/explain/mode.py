"""A network in evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation(network: nn.Module) -> Iterator[None]:
    """Inside this the network is in evaluation mode; afterwards in the mode it was in."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)
