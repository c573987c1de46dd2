"""Devices and processes. The only file that imports Fabric."""

import logging
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.amp import MixedPrecision
from lightning_fabric.plugins.precision.precision import Precision
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.wrappers import _FabricModule
from torch import Tensor, nn
from torch.optim import Optimizer

from crossbias.errors import CrossbiasError
from crossbias.launch import Launch, launched
from crossbias.seeds import global_randomness_kept
from crossbias.train.config import TrainConfig
from crossbias.types import Output

_Module = TypeVar("_Module", bound=nn.Module)
_Result = TypeVar("_Result")


class Devices:
    """Where a run computes: one device, or several processes with one each.

    Args:
        config: Names the device, the number of processes and the precision.
    """

    def __init__(self, config: TrainConfig) -> None:
        logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its hints are not ours
        device = find_device(config.device)
        launch = _launch(config.processes)
        several = launch.processes > 1
        if several and device.type == "cuda" and launch.local > torch.cuda.device_count():
            raise CrossbiasError(
                f"there are {launch.local} processes, but {torch.cuda.device_count()} GPUs"
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The `srun` command is available")  # of a login node
            try:
                self.fabric = Fabric(
                    accelerator=device.type,
                    devices=launch.local if several or device.index is None else [device.index],
                    num_nodes=launch.nodes,
                    strategy=DDPStrategy() if several else "auto",
                    plugins=[_Bf16(device) if config.precision == "bf16" else Precision()],
                )
            except RuntimeError as error:  # about the options of srun
                raise CrossbiasError(f"{launch.launcher}: {error}") from error
        self.fabric.launch()
        self.device: torch.device = self.fabric.device
        self.rank, self.world = self.fabric.global_rank, self.fabric.world_size
        self.is_main = self.fabric.is_global_zero
        self.uses_graphs = config.cuda_graphs and self.device.type == "cuda" and self.world == 1

    def setup(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Wrap a module for the precision and the processes; its optimizer with it."""
        wrapped, wrapped_optimizer = self.fabric.setup(network, optimizer)
        return wrapped, wrapped_optimizer

    def backward(self, loss: Tensor) -> None:
        """Gradients of a loss, averaged over the processes."""
        self.fabric.backward(loss)

    def apart(self, network: nn.Module, enabled: bool) -> AbstractContextManager[None]:
        """Inside this, gradients of a network are this process's own, until they are averaged."""
        if self.world == 1 or not enabled:
            return nullcontext()
        return self.fabric.no_backward_sync(cast(_FabricModule, network))

    def complete_gradients(self, optimizer: Optimizer) -> None:
        """Gradients of a network whose forward was not the wrapped one: zeros, then the mean."""
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            elif self.world > 1:
                parameter.grad.copy_(self.sum(parameter.grad) / self.world)

    def autocast(self) -> AbstractContextManager[None]:
        """The precision of the forward pass, for a network that is not wrapped."""
        return self.fabric.autocast()

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        summed = self.fabric.all_reduce(tensor, reduce_op="sum")
        assert isinstance(summed, Tensor)
        return summed

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of the whole batch, in its order: process r of p holds rows r, r + p, ...

        Gradients flow to this process's own rows, times the number of processes: a loss of the
        whole batch then has the same gradient as on one process, once the gradients of all
        processes are averaged.
        """
        if self.world == 1:
            return tensor
        gathered: Tensor = _Gathered.apply(tensor, self)
        return gathered

    def gather_rows(self, tensor: Tensor) -> Tensor:
        """What ``gather`` gives, without gradient."""
        counts = self.fabric.all_gather(torch.tensor(len(tensor), device=self.device))
        assert isinstance(counts, Tensor)
        sizes = counts.tolist()
        missing = tensor.new_zeros(max(sizes) - len(tensor), *tensor.shape[1:])
        padded = self.fabric.all_gather(torch.cat([tensor.detach(), missing]))
        assert isinstance(padded, Tensor)
        whole = tensor.new_empty(sum(sizes), *tensor.shape[1:])
        for rank, size in enumerate(sizes):
            whole[rank :: self.world] = padded[rank, :size]
        return whole

    def any(self, flag: bool) -> bool:
        """Whether something holds on at least one process."""
        if self.world == 1:
            return flag
        return bool(self.sum(torch.tensor(int(flag), device=self.device)))

    def all_or_none(self, work: Callable[[], _Result], what: str) -> _Result:
        """Do something on every process; if it fails on one, all fail and name that one's host.

        Args:
            work: What to do. It must not wait for other processes of the run.
            what: The same in words, for the error.
        """
        if self.world == 1:
            return work()
        result, failure = None, None
        try:
            result = work()
        except CrossbiasError as error:
            failure = error
        own = None if failure is None else (socket.gethostname(), str(failure))
        found: list[tuple[str, str] | None] = [None] * self.world
        torch.distributed.all_gather_object(found, own)
        failed = [each for each in found if each is not None]
        if failure is not None and {each and each[1] for each in found} == {str(failure)}:
            raise failure  # which does not depend on the machine
        if failed:
            host, line = failed[0]
            raise CrossbiasError(
                f"{len(failed)} of {self.world} processes cannot {what}; on {host}: {line}"
            )
        return cast(_Result, result)

    def share(self, network: nn.Module) -> None:
        """Give every process the main one's network: running statistics differ by process."""
        if self.world > 1:
            for tensor in network.state_dict().values():
                tensor.copy_(self.fabric.broadcast(tensor))

    def barrier(self) -> None:
        """Wait for all processes."""
        self.fabric.barrier()

    @contextmanager
    def training(self) -> Iterator[None]:
        """Global generators kept; on CUDA the fastest kernels, on a stream graphs can record."""
        with ExitStack() as stack:
            stack.enter_context(global_randomness_kept(self.device))
            if self.device.type == "cuda":
                stack.enter_context(torch.backends.cudnn.flags(enabled=True, benchmark=True))
                stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
                stream.wait_stream(torch.cuda.current_stream(self.device))
                stack.enter_context(torch.cuda.stream(stream))
                stack.callback(stream.synchronize)
            yield


class _Gathered(torch.autograd.Function):
    """Rows of all processes; the gradient of this process's own, scaled against averaging."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, devices: Devices) -> Tensor:
        ctx.rank, ctx.world = devices.rank, devices.world
        return devices.gather_rows(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[ctx.rank :: ctx.world] * ctx.world, None


class _Bf16(MixedPrecision):
    """Mixed precision that leaves the maps as they are: most methods never look at them."""

    def __init__(self, device: torch.device) -> None:
        super().__init__("bf16-mixed", device.type)

    def convert_output(self, data: Any) -> Any:
        """Losses and statistics are computed in float32."""
        if isinstance(data, Output):
            return data._replace(logits=data.logits.float(), features=data.features.float())
        if isinstance(data, Tensor):
            return data.float() if data.is_floating_point() else data
        if isinstance(data, dict):
            return {name: self.convert_output(part) for name, part in data.items()}
        if isinstance(data, tuple) and hasattr(data, "_fields"):
            return type(data)(*(self.convert_output(part) for part in data))
        if isinstance(data, tuple | list):
            return type(data)(self.convert_output(part) for part in data)
        return data


def _launch(processes: int) -> Launch:
    """The processes of this training: those that were started, or those that are asked for."""
    found = launched()
    if found is None:
        return Launch("crossbias", processes, 1, 0)
    if processes not in (1, found.processes):
        raise CrossbiasError(
            f"processes is {processes}, but {found.launcher} started {found.processes}; leave "
            f"processes out"
        )
    return found


def unwrapped(network: _Module) -> _Module:
    """The module itself, without what ``Devices.setup`` put around it."""
    return cast(_Module, getattr(network, "module", network))


def find_device(name: str) -> torch.device:
    """The device behind ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.

    >>> find_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    present = ["cpu"]
    present += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    present += ["mps"] if torch.backends.mps.is_available() else []
    wanted = "cuda:0" if name == "cuda" else name
    if wanted not in present:
        raise CrossbiasError(
            f"device {name!r} is not there; this machine has: {', '.join(present)}"
        )
    return torch.device(wanted)
