"""Sampling weights that give every class, or every (target, bias) group, the same share."""

from typing import Literal

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset

Sampling = Literal["uniform", "class-balanced", "group-balanced"]
"""How often samples are drawn: each once, every class equally often, or every group."""


def balanced_weights(data: BiasedDataset, sampling: Sampling) -> Tensor | None:
    """Sampling weights under which every class, or every (target, bias) group, is equally likely.

    The weights (full_size,) are one over the size of the sample's class or group, and zero for
    rows that are not in the data; None for ``uniform``. Samples of one class whose bias is unknown
    count as a group of their own.

    >>> data = BiasedDataset(
    ...     inputs=torch.zeros(4, 2), targets=torch.tensor([0, 0, 0, 1]),
    ...     attributes={"color": torch.tensor([0, 0, 1, 1])}, bias="color")
    >>> balanced_weights(data, "group-balanced")
    tensor([0.5000, 0.5000, 1.0000, 1.0000])
    """
    if sampling == "uniform":
        return None
    group = data.targets
    if sampling == "group-balanced":
        group = data.targets * (data.num_biases + 1) + data.biases + 1  # unknown is -1
    weights = torch.zeros(data.full_size)
    weights[data.index] = 1 / torch.bincount(group)[group]
    return weights
