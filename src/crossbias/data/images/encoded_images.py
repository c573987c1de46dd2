"""Images before they are decoded, and what to say of those that cannot be."""

from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.formatting import first_few


class EncodedImage(NamedTuple):
    """One encoded image."""

    identity: str  # finds its pixels again; another one whenever its content may have changed
    name: str  # for messages: its file, and its row where a table names it
    open: Callable[[], BinaryIO]  # its bytes


class UnusableImages(CrossbiasError):
    """Some images cannot be used.

    Args:
        reasons: By number of the image, what is wrong with it.
        names: Of all images.
    """

    def __init__(self, reasons: dict[int, str], names: Sequence[str]) -> None:
        self.reasons = reasons
        listed = first_few([f"{names[row]} {reason}" for row, reason in sorted(reasons.items())])
        super().__init__(
            f"{len(reasons):,} of {len(names):,} images cannot be used; "
            f"repair them or take them out of the data: {'; '.join(listed)}"
        )


def unreadable(error: OSError) -> str:
    """Why a file cannot be used, after its name."""
    if isinstance(error, FileNotFoundError):
        return "is missing"
    return f"cannot be read ({error.strerror or error})"
