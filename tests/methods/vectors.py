"""Vectors of two numbers, for methods whose biased network or features see one of them."""

import torch
import torch.nn.functional as F

from crossbias import BiasedDataset


def plain_bias(samples: int, aligned: float, seed: int) -> BiasedDataset:
    """The first number shows the bias plainly, the second the class with noise."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(samples) % 2
    bias = torch.where(torch.rand(samples, generator=generator) < aligned, target, 1 - target)
    noise = torch.randn(samples, 2, generator=generator) * torch.tensor([0.3, 0.6])
    return BiasedDataset(
        inputs=torch.stack([4.0 * bias - 2, 2.0 * target - 1], 1) + noise, targets=target,
        attributes={"bias": bias}, bias="bias", name="toy", split="test" if seed > 99 else "train",
        alignments={"bias": torch.eye(2, dtype=torch.bool)},
    )  # fmt: skip


def plain_bias_of_four(samples: int, aligned: float, seed: int) -> BiasedDataset:
    """Four classes: the first number shows the bias plainly, the others the class with noise."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(samples) % 4
    other = (target + torch.randint(1, 4, (samples,), generator=generator)) % 4
    bias = torch.where(torch.rand(samples, generator=generator) < aligned, target, other)
    shown = torch.cat([4 * bias[:, None] / 3 - 2, 2.0 * F.one_hot(target, 4) - 1], 1)
    noise = torch.randn(samples, 5, generator=generator) * torch.tensor([0.1, *[1.0] * 4])
    return BiasedDataset(
        inputs=shown + noise, targets=target, attributes={"bias": bias}, bias="bias", name="toy",
        split="test" if seed > 99 else "train",
        alignments={"bias": torch.eye(4, dtype=torch.bool)},
    )  # fmt: skip
