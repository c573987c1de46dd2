"""What an augmentation is: draws on the CPU, and what they do to a batch on the device."""

from torch import Generator, Tensor

Shape = tuple[int, int]
"""Height and width of images."""


class Step:
    """One augmentation of a batch; a subclass is a dataclass of its numbers.

    Drawing and applying are apart: draws come from a generator on the CPU, so that every device
    has the same, and what is left is the same device operations for every batch.
    """

    def draw(self, count: int, shape: Shape, generator: Generator) -> Tensor:
        """What is random, on the CPU, for so many images of this shape, ``(count, ...)``."""
        raise NotImplementedError

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """Images (B, C, H, W) in [0, 1], changed as was drawn."""
        raise NotImplementedError

    def shape_after(self, shape: Shape) -> Shape:
        """The shape of the images afterwards."""
        return shape
