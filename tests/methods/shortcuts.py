"""Images with a shortcut: the bias is seen at once, the class is a faint pattern."""

import dataclasses

import torch

from crossbias import BiasedDataset
from crossbias.testing import tiny_data


def shortcut_data(
    samples: int, *, seed: int, split: str = "train", contrast: int = 30
) -> BiasedDataset:
    """Images of 6 x 6 pixels. About 5% of the training samples conflict, and 25% of the others.

    The class is a pattern that is ``contrast`` brighter than its surroundings, of 255.
    """
    data = tiny_data(samples, seed=2 * seed + (split != "train"), split=split)
    generator = torch.Generator().manual_seed(100 * seed + len(split))
    images = torch.randint(0, 100, data.inputs.shape, generator=generator)
    images[:, 1] = 40 + 80 * data.biases[:, None, None]
    for number in range(3):
        images[data.targets == number, 0, 2 * number : 2 * number + 2] += contrast
    data = dataclasses.replace(data, inputs=images.to(torch.uint8))
    keep = (data.targets == data.biases) | (torch.arange(samples) % 5 == 0)
    return data.subset(keep) if split == "train" else data
