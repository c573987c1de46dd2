"""Optimizers whose steps can be captured as a CUDA graph, and schedules of learning rates."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from crossbias.train.config import TrainConfig


def make_optimizer(
    config: TrainConfig, parameters: Iterable[nn.Parameter], device: torch.device
) -> Optimizer:
    """The configured optimizer, with one kernel for all parameters where torch has one."""
    if config.optimizer == "adamp":
        from timm.optim.adamp import AdamP

        decay = config.weight_decay
        return AdamP(parameters, lr=config.lr, weight_decay=decay)  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "fused": device.type in ("cpu", "cuda"),
    }
    if config.optimizer == "sgd":
        return SGD(parameters, momentum=config.momentum, **options)
    options["capturable"] = device.type == "cuda"
    return (AdamW if config.optimizer == "adamw" else Adam)(parameters, **options)


def is_capturable(config: TrainConfig) -> bool:
    """Whether steps of the configured optimizer can be recorded as a CUDA graph."""
    return config.optimizer != "adamp"  # it decides on the host whether to project a gradient


def set_learning_rate(optimizer: Optimizer, value: float, device: torch.device) -> None:
    """Set the learning rate; on CUDA in a tensor, which a captured graph reads at each replay."""
    for group in optimizer.param_groups:
        if device.type != "cuda" or "fused" not in group:  # AdamP wants a number
            group["lr"] = value
        elif isinstance(group["lr"], Tensor) and group["lr"].device == device:
            group["lr"].fill_(value)
        else:
            group["lr"] = torch.tensor(value, device=device)


def learning_rate(config: TrainConfig, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch, counted from 0, in a training of ``epochs``.

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
