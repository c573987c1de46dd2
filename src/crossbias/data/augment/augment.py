"""Augmentations of training batches by name: ``flip``, ``crop(4)``, ``rotate(10)``."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from crossbias.data.augment.color import Grey, Jitter
from crossbias.data.augment.geometry import Crop, Flip, RandomResizedCrop, Rotate
from crossbias.data.augment.step import Shape, Step
from crossbias.errors import CrossbiasError
from crossbias.parameters import convert, parameters_of, unknown

AUGMENTATIONS: dict[str, Callable[..., Step]] = {
    "flip": Flip,
    "crop": Crop,
    "random-resized-crop": RandomResizedCrop,
    "rotate": Rotate,
    "jitter": Jitter,
    "grey": Grey,
}
"""Augmentations by name. Each is made from the numbers in parentheses."""

_NOT_IN_SPECS = ("size",)
_SPEC = re.compile(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class Augmentation:
    """Augmentations that are applied one after the other."""

    steps: tuple[Step, ...]

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Augment images (B, C, H, W) in [0, 1], or clips (B, C, T, H, W).

        All frames of a clip change in the same way. Draws come from a generator on the CPU.
        """
        return self.of_batches(images, [(len(images), generator)])

    def of_batches(self, images: Tensor, batches: Sequence[tuple[int, Generator]]) -> Tensor:
        """Augment images of several batches at once, each batch by its own generator.

        Args:
            images: Those of the first batch, then those of the next.
            batches: The number of images and the generator of each batch.
        """
        shape = (images.shape[-2], images.shape[-1])
        drawn = [self.draw(count, shape, generator) for count, generator in batches]
        together = [torch.cat(draws) for draws in zip(*drawn, strict=True)]
        return self.apply(images, *(_to_device(draws, images) for draws in together))

    def draw(self, count: int, shape: Shape, generator: Generator) -> list[Tensor]:
        """The draws of all steps for so many images of a shape, on the CPU, ``(B, ...)`` each."""
        drawn = []
        for step in self.steps:
            drawn.append(step.draw(count, shape, generator))
            shape = step.shape_after(shape)
        return drawn

    def apply(self, images: Tensor, *drawn: Tensor) -> Tensor:
        """What the draws, on the device, do to images or clips."""
        found = images.flatten(1, 2) if images.ndim == 5 else images  # frames are channels
        for step, draws in zip(self.steps, drawn, strict=True):
            found = step.apply(found, draws)
        return found.reshape(*images.shape[:-2], *found.shape[2:]) if images.ndim == 5 else found


def augmentation(specs: Sequence[str], *, size: int = 0) -> Augmentation:
    """Combine named augmentations, applied one after the other.

    Numbers in parentheses, by position or as ``name=number``, replace the defaults. ``size`` is the
    side of the square to which cropping augmentations cut; 0 keeps the images' shape.

    >>> augment = augmentation(("flip", "crop(2)", "jitter(hue=0.1)"))
    """
    return Augmentation(tuple(_step(spec, size) for spec in specs))


def _step(spec: str, size: int) -> Step:
    match = _SPEC.fullmatch(spec)
    name = match[1] if match else spec
    if match is None or name not in AUGMENTATIONS:
        numbers = "; numbers go in parentheses, as in crop(4)"
        raise unknown("there is no augmentation", name, AUGMENTATIONS, more=numbers)
    options = _options(spec, name, match[2] or "")
    if "size" in parameters_of(AUGMENTATIONS[name]):
        options["size"] = size
    return AUGMENTATIONS[name](**options)


def _options(spec: str, name: str, text: str) -> dict[str, float]:
    """The numbers between the parentheses, by name."""
    known = parameters_of(AUGMENTATIONS[name])
    names = [parameter for parameter in known if parameter not in _NOT_IN_SPECS]
    options: dict[str, float] = {}
    for place, part in enumerate(text.split(",") if text.strip() else []):
        left, equals, right = (word.strip() for word in part.partition("="))
        key = left if equals else (names[place] if place < len(names) else "")
        if key not in names or key in options:
            raise CrossbiasError(
                f"augmentation {spec!r} has {part.strip()!r}, which is unknown or occurs twice; "
                f"its numbers are: {', '.join(names) or 'none'}"
            )
        options[key] = convert(right or left, known[key].annotation, f"{key} of {name}")
    return options


def _to_device(drawn: Tensor, images: Tensor) -> Tensor:
    """Copy draws from the CPU to the device of the images; the host does not wait for it."""
    if images.is_cuda:
        drawn = drawn.pin_memory()
    return drawn.to(images.device, non_blocking=True)
