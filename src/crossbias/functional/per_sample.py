"""Gradients of single samples with respect to a whole network, a few samples at a time."""

import contextlib
from collections.abc import Callable, Collection, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from crossbias.functional.convolution import UnfoldedWeightGradients

_COPIES = 3  # what a chunk of gradients needs at its peak, in units of its own size


def per_sample_gradients(
    network: nn.Module,
    inputs: Tensor,
    target: Tensor,
    *,
    names: Collection[str] | None = None,
    budget: int = 2**30,
) -> Iterator[tuple[slice, Tensor]]:
    """Gradients of each sample's cross-entropy, as PGD's scores need them, chunk by chunk.

    Never more than ``budget`` bytes of gradients exist at once, so that memory does not depend on
    the number of samples. On a GPU the unfolded inputs of a convolution come on top, those of the
    same few samples.

    Args:
        network: Called on a batch; its output has ``logits``. It must be in evaluation mode: batch
            statistics would mix the samples.
        inputs: ``(B, ...)`` a batch.
        target: ``(B,)`` class numbers.
        names: Of the parameters to differentiate by; all trainable ones if not given.
        budget: Bytes that gradients may take.

    Yields:
        Which rows of the batch, and their gradients ``(rows, parameters)`` in float32, the
        trainable parameters one after the other as ``network.parameters()`` lists them.

    >>> from crossbias.networks import Network
    >>> network = Network(nn.Flatten(), nn.Linear(4, 3)).eval()
    >>> chunks = per_sample_gradients(network, torch.rand(5, 4), torch.zeros(5, dtype=torch.int64))
    >>> [(rows, gradients.shape) for rows, gradients in chunks]
    [(slice(0, 5, None), torch.Size([5, 15]))]
    """
    if any(module.training for module in network.modules()):
        raise ValueError("per-sample gradients need the network in evaluation mode: network.eval()")
    trainable = {n: p.detach() for n, p in network.named_parameters() if p.requires_grad}
    parameters = {n: p for n, p in trainable.items() if names is None or n in names}
    # Grouped convolutions are fast on the CPU, matrix products on a GPU.
    convolutions = UnfoldedWeightGradients() if inputs.is_cuda else contextlib.nullcontext()
    one_gradient = _gradient_of_one(network)
    size = sum(parameter.numel() for parameter in parameters.values())
    most = max(1, budget // (_COPIES * 4 * size))
    count = -(-len(inputs) // most)
    chunk = -(-len(inputs) // max(1, count))  # of about the same size all
    for start in range(0, len(inputs), max(1, chunk)):
        rows = slice(start, min(start + chunk, len(inputs)))
        # Batch normalization of mixed precision cannot be batched everywhere.
        with convolutions, torch.autocast(inputs.device.type, enabled=False):
            found = vmap(one_gradient, in_dims=(None, 0, 0))(parameters, inputs[rows], target[rows])
        yield rows, torch.cat([gradient.flatten(1) for gradient in found.values()], 1).float()


def parts_of(coordinates: Tensor, sizes: list[int]) -> tuple[list[int], Tensor]:
    """Which of several parts, one after the other, some coordinates lie in.

    Args:
        coordinates: Of any shape, from 0 to the sum of the sizes.
        sizes: Of the parts.

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
