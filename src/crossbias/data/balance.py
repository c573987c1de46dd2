"""Sampling weights that undo the correlation of target and bias."""

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset


def balanced_weights(data: BiasedDataset) -> Tensor:
    """Weights with which every (target, bias) group of the data is drawn equally often.

    Samples of one class whose bias is unknown count as a group of their own.

    Returns:
        ``(full_size,)`` one over the size of the sample's group; zero for rows that are not in
        the data.

    >>> data = BiasedDataset(
    ...     inputs=torch.zeros(4, 2), targets=torch.tensor([0, 0, 0, 1]),
    ...     attributes={"color": torch.tensor([0, 0, 1, 1])}, bias="color")
    >>> balanced_weights(data)
    tensor([0.5000, 0.5000, 1.0000, 1.0000])
    """
    group = data.targets * (data.num_biases + 1) + data.biases + 1  # unknown is -1
    weights = torch.zeros(data.full_size)
    weights[data.index] = 1 / torch.bincount(group)[group]
    return weights
