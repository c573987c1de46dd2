"""Augmentations of whole batches, on the device, drawn from a given generator."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from crossbias.errors import CrossbiasError
from crossbias.parameters import closest

Augmentation = Callable[[Tensor, Generator], Tensor]
"""Maps images (B, C, H, W) in [0, 1] to images; draws only from the (CPU) generator."""


def flip(images: Tensor, generator: Generator) -> Tensor:
    """Mirror each image left to right with probability one half."""
    chosen = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(_to(images, chosen)[:, None, None, None], images.flip(3), images)


def crop(images: Tensor, generator: Generator, padding: int = 4) -> Tensor:
    """Pad with zeros and cut each image out again at a random place."""
    height, width = images.shape[2:]
    shifts = torch.randint(0, 2 * padding + 1, (2, len(images)), generator=generator)
    top, left = _to(images, shifts)
    padded = F.pad(images, [padding] * 4)
    rows = top[:, None] + torch.arange(height, device=images.device)  # (B, H)
    columns = left[:, None] + torch.arange(width, device=images.device)  # (B, W)
    batch = torch.arange(len(images), device=images.device)[:, None, None]
    # Indices around a slice put the channels last: (B, H, W, C).
    return padded[batch, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


AUGMENTATIONS: dict[str, Augmentation] = {"flip": flip, "crop": crop}


def center_crop(images: Tensor, size: int) -> Tensor:
    """The middle square of images or clips; those that are no larger stay whole."""
    height, width = images.shape[-2:]
    top, left = max(height - size, 0) // 2, max(width - size, 0) // 2
    return images[..., top : top + min(size, height), left : left + min(size, width)]


def augmented(inputs: Tensor, augment: Augmentation, generator: Generator) -> Tensor:
    """Images, or clips (B, C, T, H, W), all frames of which are changed in the same way."""
    if inputs.ndim != 5:
        return augment(inputs, generator)
    as_channels = augment(inputs.flatten(1, 2), generator)
    return as_channels.reshape(*inputs.shape[:3], *as_channels.shape[2:])


def augmentation(names: tuple[str, ...]) -> Augmentation:
    """The named augmentations, one after the other."""
    for name in names:
        if name not in AUGMENTATIONS:
            raise CrossbiasError(
                f"there is no augmentation {name!r}{closest(name, AUGMENTATIONS)}; "
                f"there are: {', '.join(AUGMENTATIONS)}"
            )

    def augment(images: Tensor, generator: Generator) -> Tensor:
        for name in names:
            images = AUGMENTATIONS[name](images, generator)
        return images

    return augment


def _to(images: Tensor, drawn: Tensor) -> Tensor:
    return drawn.to(images.device, non_blocking=True)
