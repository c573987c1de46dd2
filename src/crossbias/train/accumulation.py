"""StepInParts: one update from several parts of a batch, which need less memory than the whole."""

from torch import Tensor

from crossbias.errors import CrossbiasError
from crossbias.train.method import Method
from crossbias.types import Batch, Losses


class StepInParts:
    """The step of a method whose loss is a mean over samples (``Method.mean_loss``).

    The gradients of the parts are added, each with its share of the whole batch of all processes.
    They are those of the whole batch, also where processes have shares of different sizes.

    Args:
        method: The method, after its ``setup``.
        parts: In how many parts each process computes its share of a batch.

    Attributes:
        total: Samples in the batch at hand, over all processes; set before each step.
    """

    def __init__(self, method: Method, parts: int) -> None:
        self.method, self.parts, self.total = method, parts, 0

    def __call__(self, batch: Batch) -> Losses:
        """One update; the losses are means over this process's share."""
        method, devices = self.method, self.method.run.devices
        size, means = len(batch.target), dict[str, Tensor]()
        method.optimizer.zero_grad()
        parts = split(batch, self.parts)
        for number, part in enumerate(parts, start=1):
            share = len(part.target) / self.total * devices.world  # which averaging divides by
            with devices.apart(method.network, number < len(parts)):
                losses = method.loss(part)
                devices.backward(losses["loss"] * share)
            for name, value in losses.items():
                mean = value.detach() * (len(part.target) / size)
                means[name] = means[name] + mean if name in means else mean
        method.run.move(method.optimizer)
        return means


def split(batch: Batch, parts: int) -> list[Batch]:
    """A batch in parts of nearly the same size, of which none is empty.

    >>> import torch
    >>> batch = Batch(*(torch.arange(5) for _ in Batch._fields))
    >>> [part.index.tolist() for part in split(batch, 2)], len(split(batch, 9))
    ([[0, 1, 2], [3, 4]], 5)
    """
    number = min(parts, len(batch.target))
    tensors = [tensor.tensor_split(number) for tensor in batch]
    return [Batch(*part) for part in zip(*tensors, strict=True)]


def has_mean_loss(method: Method) -> bool:
    """What a class declares about its losses; a subclass with a loss of its own must say it too."""
    for kind in type(method).__mro__:
        if "mean_loss" in vars(kind):
            return method.mean_loss
        if vars(kind).keys() & {"loss", "step"}:
            return False
    return False


def check_parts(method: Method) -> None:
    """Refuse a method, or one with another inside it, that cannot compute a batch in parts."""
    if not has_mean_loss(method):
        raise CrossbiasError(
            f"{type(method).__name__} cannot accumulate: its loss compares samples of a batch, or "
            f"its steps are not one mean over samples; leave accumulate out, or use a smaller "
            f"batch_size"
        )
    for value in method.hyperparameters().values():
        if isinstance(value, Method):
            check_parts(value)
