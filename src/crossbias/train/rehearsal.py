"""A method's own steps on a few samples, before anything is trained or written."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.networks.network import Network
from crossbias.networks.trace import first_line
from crossbias.progress import Progress
from crossbias.seeds import global_randomness_kept
from crossbias.train.devices import unwrapped
from crossbias.train.loop import set_training
from crossbias.train.method import Method
from crossbias.train.run import Run
from crossbias.types import Batch

_SAMPLES = 8  # more than any method needs for its loss


class _EndOfRehearsal(Exception):
    """Everything that can be tried on a few samples has been tried."""


def rehearse(method: Method, run: Run) -> None:
    """Go through a method with one step on a few samples for each of its trainings.

    So a network inside the method, such as ReBias's g, or a loss that does not fit the data is
    refused now, and not after a first training. Networks are thrown away; random generators and the
    run stay as they were.

    Args:
        method: What is about to be trained.
        run: The run it will be trained in.

    Raises:
        CrossbiasError: The method refuses the data, or a step fails.
    """
    rehearsal = Rehearsal(run)
    with global_randomness_kept(run.device):
        try:
            _copied(method).fit(rehearsal)
        except _EndOfRehearsal:
            return
        except (_FailedStep, torch.OutOfMemoryError):
            raise
        except Exception:
            # After one step, what a method computes from its first network means nothing. Only a
            # refusal before that is about the data.
            if not rehearsal.tried:
                raise


def _copied(method: Method) -> Method:
    """The method with whatever else it holds; what a rehearsal builds is the copy's own."""
    copied = copy.copy(method)
    for name, value in method.hyperparameters().items():
        if isinstance(value, Method):
            setattr(copied, name, _copied(value))
    return copied


class _FailedStep(CrossbiasError):
    """A step of the rehearsal failed."""


class Rehearsal(Run):
    """A run in which every training is one step on the same few samples, and nothing is kept.

    Args:
        run: The run to stand in for.
    """

    def __init__(self, run: Run) -> None:
        vars(self).update(vars(run))
        self.folder, self.progress, self.optimizers = None, Progress(), []
        self._health = {}
        self.tried: list[str] = []  # names of trainings, shared by the rehearsals of all stages

    def train(self, method: Method, *, name: str = "final", **options: Any) -> Network:
        """Set the method up and take one step."""
        child = copy.copy(self)
        child.stage_name, child.optimizers = self._prefix + name, []
        child.config = options.get("config") or self.config
        if options.get("network") is not None:
            child.network, child.fresh = options["network"], False
        method.setup(child)
        self.tried.append(name)
        child._try_step(method)
        if name == "final" and self._last:
            raise _EndOfRehearsal
        return unwrapped(method.network).eval()

    def stage(
        self, name: str, compute: Callable[[], Tensor], *, shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """Compute the value from a few samples; end where its shape cannot be relied on."""
        if shape is None:
            raise _EndOfRehearsal
        return super().stage(name, compute, shape=shape)

    def warn(self, name: str, sentence: str, remedy: str) -> None:
        """Nothing that a few samples show is worth a warning."""

    def _batches(self, data: BiasedDataset, size: int, *, whole: bool = False) -> Iterator[Batch]:
        yield from self.loader(data).batches([torch.arange(min(_SAMPLES, len(data)))])

    def _try_step(self, method: Method) -> None:
        networks = {
            part: module for part, module in method.state().items() if isinstance(module, nn.Module)
        }
        set_training(method)
        cut = [torch.arange(min(_SAMPLES * self.devices.world, len(self.data)))]
        batches = self.loader(self.data).batches(cut, augment=self.augmentation(), seed=self.seed())
        batch = next(iter(batches))
        try:
            method.begin_epoch()
            method.step(batch)
        except (CrossbiasError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a stranger's method or network may raise anything
            raise _failed(method, networks, batch, error) from error


def _failed(
    method: Method, networks: dict[str, nn.Module], batch: Batch, error: Exception
) -> _FailedStep:
    name, size = method.name or type(method).__name__, "x".join(map(str, batch.inputs.shape[1:]))
    reason = f"inputs of {size} fail ({type(error).__name__}: {first_line(error)})"
    for part, network in networks.items():
        if isinstance(unwrapped(network), Network) and not _takes(network, batch.inputs):
            return _FailedStep(
                f"the {part.replace('_', ' ')} of {name} does not fit the data: {reason}; use "
                f"images of another size (--set data.size=224 for a folder of images), or another "
                f"network there"
            )
    return _FailedStep(
        f"a step of {name} does not fit the data: {reason}; its networks take these inputs, so "
        f"look at what its loss makes of their outputs"
    )


def _takes(network: nn.Module, inputs: Tensor) -> bool:
    try:
        with torch.no_grad():
            network(inputs)
    except Exception:  # whatever it is, the step has raised it too
        return False
    return True
