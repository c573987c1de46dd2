"""Gradients of single samples with respect to a whole network, a few samples at a time."""

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.overrides import TorchFunctionMode

from crossbias.methods.batchable_layers import BatchableLayers

_COPIES = 3  # what a chunk of gradients needs at its peak, in units of its own size


def per_sample_gradients(
    network: nn.Module,
    inputs: Tensor,
    target: Tensor,
    *,
    names: Collection[str] | None = None,
    budget: int | None = None,
) -> Iterator[tuple[slice, Tensor]]:
    """Gradients of each sample's cross-entropy, as PGD's scores need them, chunk by chunk.

    A chunk has as many samples as fit the budget with their gradients, the values a network keeps
    for them and, on a GPU, the unfolded inputs of its convolutions; at least one. So memory does
    not depend on the number of samples. What a function of torch such as attention computes inside
    of itself is not counted. Under autocast on a GPU convolutions are computed in its precision,
    all else in float32.

    Args:
        network: Called on a batch; its output has ``logits``. It must be in evaluation mode: batch
            statistics would mix the samples.
        inputs: ``(B, ...)`` a batch.
        target: ``(B,)`` class numbers.
        names: Names of the parameters to differentiate by; all trainable ones if not given.
        budget: Bytes for a chunk; if not given, a quarter of a GPU's memory, or else 1 GiB.

    Returns:
        An iterator over which rows of the batch, and their gradients ``(rows, parameters)`` in
        float32, the trainable parameters one after the other as ``network.parameters()`` lists
        them.

    >>> from crossbias.networks import Network
    >>> network = Network(nn.Flatten(), nn.Linear(4, 3)).eval()
    >>> chunks = per_sample_gradients(network, torch.rand(5, 4), torch.zeros(5, dtype=torch.int64))
    >>> [(rows, gradients.shape) for rows, gradients in chunks]
    [(slice(0, 5, None), torch.Size([5, 15]))]
    """
    if any(module.training for module in network.modules()):
        raise ValueError("per-sample gradients need the network in evaluation mode: network.eval()")
    trainable = {n: p for n, p in network.named_parameters() if p.requires_grad}
    if absent := sorted(set(names or ()) - set(trainable)):
        raise ValueError(f"no trainable parameter {', '.join(absent)}; there are {list(trainable)}")
    parameters = {n: p for n, p in trainable.items() if names is None or n in names}
    if not len(inputs):
        return iter(())
    budget = _memory(inputs.device) if budget is None else budget
    most = max(1, budget // (4 * _values_of_one(network, inputs[:1], list(parameters.values()))))
    count = -(-len(inputs) // most)
    chunk = -(-len(inputs) // count)  # of about the same size all
    return _chunks(network, inputs, target, parameters, chunk, _layers(inputs.device.type))


def _layers(kind: str) -> contextlib.AbstractContextManager[Any]:
    """What ``vmap`` makes of the layers is fast on the CPU, not on a GPU."""
    if kind != "cuda":
        return contextlib.nullcontext()
    enabled = torch.is_autocast_enabled(kind)
    return BatchableLayers(torch.get_autocast_dtype(kind) if enabled else None)


def _chunks(
    network: nn.Module,
    inputs: Tensor,
    target: Tensor,
    parameters: dict[str, nn.Parameter],
    chunk: int,
    layers: contextlib.AbstractContextManager[Any],
) -> Iterator[tuple[slice, Tensor]]:
    values = {name: parameter.detach() for name, parameter in parameters.items()}
    one_gradient = _gradient_of_one(network)
    for start in range(0, len(inputs), chunk):
        rows = slice(start, min(start + chunk, len(inputs)))
        # Batch normalization of mixed precision cannot be batched everywhere. Without no_grad,
        # parameters that are not differentiated by here would keep a graph of all that is computed.
        with (
            torch.no_grad(), layers, torch.autocast(inputs.device.type, enabled=False),
            warnings.catch_warnings(),
        ):  # fmt: skip
            # Attention is computed sample by sample, which costs time and is no concern of users.
            warnings.filterwarnings("ignore", "There is a performance drop because we have not yet")
            found = vmap(one_gradient, in_dims=(None, 0, 0))(values, inputs[rows], target[rows])
        yield rows, torch.cat([gradient.flatten(1) for gradient in found.values()], 1).float()


def _memory(device: torch.device) -> int:
    """The same whatever else is on the device, so that repeating gives the same to the last bit."""
    if device.type != "cuda":
        return 2**30
    return int(torch.cuda.get_device_properties(device).total_memory) // 4


def _values_of_one(network: nn.Module, sample: Tensor, parameters: Sequence[Tensor]) -> int:
    """How many numbers the gradient of one sample needs at its peak, roughly."""
    recorder = _Recorder(parameters)
    with recorder, torch.no_grad():
        network(sample)
    size = sum(parameter.numel() for parameter in parameters)
    unfolded = recorder.unfolded if sample.is_cuda else 0
    return _COPIES * size + 2 * recorder.computed + unfolded  # values and their gradients


class _Recorder(TorchFunctionMode):
    """Counts the numbers that functions of torch return."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        super().__init__()
        self.wanted = {id(parameter) for parameter in parameters}
        self.computed = 0
        self.unfolded = 0  # the largest input of a convolution, unfolded for its weight gradient

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function and count."""
        result = func(*args, **(kwargs or {}))
        several = result if isinstance(result, tuple) else (result,)
        self.computed += sum(each.numel() for each in several if isinstance(each, Tensor))
        if func is F.conv2d:
            weight = args[1] if len(args) > 1 else (kwargs or {})["weight"]
            if id(weight) in self.wanted:
                size = weight[0].numel() * result[0, 0].numel()
                self.unfolded = max(self.unfolded, size)
        return result


def parts_of(coordinates: Tensor, sizes: list[int]) -> tuple[list[int], Tensor]:
    """Which of several parts, one after the other, some coordinates lie in.

    Args:
        coordinates: Numbers from 0 to the sum of the sizes, in any shape.
        sizes: Sizes of the parts.

    Returns:
        The numbers of the parts, and the coordinates when only these follow each other.

    >>> parts_of(torch.tensor([9, 2, 8]), [3, 4, 5])
    ([0, 2], tensor([5, 2, 4]))
    """
    of_part = torch.tensor(sizes, device=coordinates.device)
    ends = of_part.cumsum(0)
    owner = torch.bucketize(coordinates, ends, right=True)
    used = torch.zeros_like(of_part).index_fill_(0, owner.flatten(), 1)
    left_out = (of_part * (1 - used)).cumsum(0)
    return used.nonzero().flatten().tolist(), coordinates - left_out[owner]


def _gradient_of_one(
    network: nn.Module,
) -> Callable[[dict[str, Tensor], Tensor, Tensor], dict[str, Tensor]]:
    def loss(parameters: dict[str, Tensor], sample: Tensor, target: Tensor) -> Tensor:
        output = functional_call(network, parameters, (sample[None],))
        return F.cross_entropy(output.logits, target[None])

    gradient: Callable[[dict[str, Tensor], Tensor, Tensor], dict[str, Tensor]] = grad(loss)
    return gradient
