"""Layers in a row whose batch normalizations and ReLUs run as one kernel."""

import functools
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor, nn


class FusedSequential(nn.Sequential):
    """``nn.Sequential`` in which batch normalization, and ReLU after it, are one kernel.

    That holds in training on CUDA with bf16 maps, where reading and writing maps takes most of the
    time. Statistics are in float32, as in ``nn.BatchNorm2d``. A layer with hooks is called by
    itself. Everywhere else it is ``nn.Sequential``.
    """

    def forward(self, input: Tensor) -> Tensor:
        """What the last layer gives."""
        layers = list(self)
        while layers:
            layer = layers.pop(0)
            if not _is_fused(layer, input):
                input = layer(input)
                continue
            relu = bool(layers) and type(layers[0]) is nn.ReLU and not _has_hooks(layers[0])
            if relu:
                layers.pop(0)
            input = _normalized(layer, input, relu=relu)
        return input


def _is_fused(layer: nn.Module, maps: Tensor) -> TypeGuard[nn.BatchNorm2d]:
    return (
        type(layer) is nn.BatchNorm2d
        and layer.training
        and layer.affine
        and layer.track_running_stats
        and layer.momentum is not None
        and not _has_hooks(layer)
        and maps.is_cuda
        and maps.dtype == torch.bfloat16
        and layer.num_features.bit_count() == 1  # a power of two
        and has_triton()
    )


def _has_hooks(layer: nn.Module) -> bool:
    hooks = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks
    return any(hooks) or bool(layer._backward_pre_hooks)


def _normalized(layer: nn.BatchNorm2d, maps: Tensor, *, relu: bool) -> Tensor:
    from crossbias.networks.normalization_kernels import normalized

    assert layer.running_mean is not None
    assert layer.running_var is not None
    assert layer.num_batches_tracked is not None
    assert layer.momentum is not None
    layer.num_batches_tracked.add_(1)
    maps = maps.contiguous(memory_format=torch.channels_last)
    return normalized(
        maps, layer.weight, layer.bias, layer.running_mean, layer.running_var,
        momentum=layer.momentum, eps=layer.eps, relu=relu,
    )  # fmt: skip


@functools.cache
def has_triton() -> bool:
    """Whether kernels can be compiled: Triton, which torch for GPUs on Linux brings, needs C."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    headers = Path(sysconfig.get_config_var("INCLUDEPY") or "", "Python.h").exists()
    return bool(compiler) and headers and importlib.util.find_spec("triton") is not None
