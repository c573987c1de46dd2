"""Augmentations of training batches by name: ``flip``, ``crop(4)``, ``rotate(10)``."""

import re
from collections.abc import Callable
from functools import partial

from torch import Generator, Tensor

from crossbias.data.augment.color import grey, jitter
from crossbias.data.augment.geometry import crop, flip, random_resized_crop, rotate
from crossbias.errors import CrossbiasError
from crossbias.parameters import convert, parameters_of, unknown

Augmentation = Callable[[Tensor, Generator], Tensor]
"""Maps images (B, C, H, W) in [0, 1] to images; all draws come from the (CPU) generator."""

AUGMENTATIONS: dict[str, Callable[..., Tensor]] = {
    "flip": flip,
    "crop": crop,
    "random-resized-crop": random_resized_crop,
    "rotate": rotate,
    "jitter": jitter,
    "grey": grey,
}
"""Augmentations by name. Each takes images, a generator, and the numbers in parentheses."""

_NOT_IN_SPECS = ("images", "generator", "size")
_SPEC = re.compile(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def augmentation(specs: tuple[str, ...], *, size: int = 0) -> Augmentation:
    """Combine named augmentations, applied one after the other.

    Numbers in parentheses, by position or as ``name=number``, replace the defaults. ``size`` is the
    side of the square to which cropping augmentations cut; 0 keeps the images' shape.

    >>> augment = augmentation(("flip", "crop(2)", "jitter(hue=0.1)"))
    """
    steps = [_step(spec, size) for spec in specs]

    def augment(images: Tensor, generator: Generator) -> Tensor:
        for step in steps:
            images = step(images, generator)
        return images

    return augment


def _step(spec: str, size: int) -> Augmentation:
    match = _SPEC.fullmatch(spec)
    name = match[1] if match else spec
    if match is None or name not in AUGMENTATIONS:
        numbers = "; numbers go in parentheses, as in crop(4)"
        raise unknown("there is no augmentation", name, AUGMENTATIONS, more=numbers)
    options = _options(spec, name, match[2] or "")
    if "size" in parameters_of(AUGMENTATIONS[name]):
        options["size"] = size
    return partial(AUGMENTATIONS[name], **options)


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


def augmented(inputs: Tensor, augment: Augmentation, generator: Generator) -> Tensor:
    """Augment images, or clips (B, C, T, H, W); all frames of a clip change in the same way."""
    if inputs.ndim != 5:
        return augment(inputs, generator)
    as_channels = augment(inputs.flatten(1, 2), generator)
    return as_channels.reshape(*inputs.shape[:3], *as_channels.shape[2:])
