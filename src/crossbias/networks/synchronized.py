"""Batch normalization over the whole batch of several processes.

Torch's ``SyncBatchNorm`` refuses the CPU; this one computes on any device.
"""

from typing import Final

import torch
from torch import Tensor, nn
from torch.distributed.nn import functional as collective
from torch.nn.modules.batchnorm import _BatchNorm

from crossbias.errors import CrossbiasError

_KNOWN: Final = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class SynchronizedBatchNorm(_BatchNorm):
    """Normalizes by mean and variance over the samples of all processes.

    In evaluation mode, and in its weights and statistics, it is torch's layer.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalize ``(b, channels, ...)``; every process must be here at the same time."""
        if not self.training:
            return super().forward(inputs)
        values = inputs.to(torch.promote_types(inputs.dtype, torch.float32))
        others = [0, *range(2, inputs.ndim)]
        by_channel = (1, -1, *(1 for _ in others[1:]))
        count = values.new_tensor([inputs.numel() // inputs.shape[1]])
        sums = _summed(torch.cat([values.sum(others), count]))
        mean, count = sums[:-1] / sums[-1], sums[-1].detach()
        centered = values - mean.view(by_channel)
        # In two passes: the mean of the squares less the square of the mean cancels.
        variance = _summed(centered.square().sum(others)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        normalized: Tensor = centered * (variance + self.eps).rsqrt().view(by_channel)
        if self.affine:
            normalized = normalized * self.weight.view(by_channel) + self.bias.view(by_channel)
        return normalized.to(inputs.dtype)

    def _check_input_dim(self, input: Tensor) -> None:
        """Inputs were those of the layer that this one replaces."""

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics, which evaluation uses."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        speed = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean += speed * (mean - self.running_mean)
        self.running_var += speed * (variance - self.running_var)


def _summed(tensor: Tensor) -> Tensor:
    """The sum over all processes, through which gradients flow to each of them."""
    summed: Tensor = collective.all_reduce(tensor)  # type: ignore[no-untyped-call]
    return summed


def synchronized(network: nn.Module) -> nn.Module:
    """The network with all batch normalization synchronized; its weights are the same tensors.

    Raises:
        CrossbiasError: A layer has batch normalization of a kind of its own.
    """
    if type(network) in _KNOWN:
        return _layer(network)
    if isinstance(network, _BatchNorm):
        raise CrossbiasError(
            f"sync_batch_norm cannot replace the layer {type(network).__name__}; leave it out, or "
            f"use a network with torch's own batch normalization"
        )
    for name, child in network.named_children():
        setattr(network, name, synchronized(child))
    return network


def _layer(layer: nn.Module) -> SynchronizedBatchNorm:
    assert isinstance(layer, _BatchNorm)
    found = SynchronizedBatchNorm(
        layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats
    ).train(layer.training)
    found._parameters, found._buffers = layer._parameters, layer._buffers
    return found
