"""Device operations as one CUDA graph: in small networks, launches take longer than kernels."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

_Found = TypeVar("_Found")

_EAGER_CALLS = 3  # cuDNN picks its kernels and optimizers make their state in these


class Graphed(Generic[_Found]):
    """Calls a function eagerly a few times, then records it and replays the record.

    Tensors of another shape, such as the rest at the end of an epoch, are given to the function
    itself. So are all where recording fails. The function must be the same sequence of device
    operations every time, and all calls must run on one stream that is not the default one. What it
    returns is overwritten by the next call.

    Args:
        function: Of tensors on the device; the first one's shape tells whether to replay.
        name: What it computes, in the plural.
        note: Told once where recording fails.
    """

    def __init__(
        self, function: Callable[..., _Found], name: str, note: Callable[[str], None]
    ) -> None:
        self.function, self.name, self.note = function, name, note
        self.shape: torch.Size | None = None
        self.eager_calls, self.failed = 0, False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: tuple[Tensor, ...]
        self.found: _Found

    def __call__(self, *tensors: Tensor) -> _Found:
        """What the function returns, by replay where possible."""
        if self.shape is None:
            self.shape = tensors[0].shape
        if self.failed or tensors[0].shape != self.shape:
            return self.function(*tensors)
        if self.eager_calls < _EAGER_CALLS:
            self.eager_calls += 1
            return self.function(*tensors)
        if self.graph is None and not self._record(tensors):
            return self.function(*tensors)
        for static, new in zip(self.inputs, tensors, strict=True):
            static.copy_(new)
        assert self.graph is not None
        self.graph.replay()
        return self.found

    def _record(self, tensors: tuple[Tensor, ...]) -> bool:
        """Record the function, which runs nothing: the first replay follows. False if it fails."""
        self.inputs = tuple(tensor.clone() for tensor in tensors)
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads, such as the one that pins what workers read, go on with CUDA meanwhile.
            with torch.cuda.graph(
                graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"
            ):
                self.found = self.function(*self.inputs)
        except RuntimeError as error:
            self.failed = True
            reason = str(error).splitlines()[0]
            self.note(f"{self.name} are not replayed as a CUDA graph, which is slower: {reason}")
            return False
        self.graph = graph
        return True
