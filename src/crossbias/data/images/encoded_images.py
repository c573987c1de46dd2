"""Encoded images, and the error that names those that cannot be used."""

from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.formatting import first_few


class EncodedImage(NamedTuple):
    """One encoded image."""

    identity: str  # key of its pixels in the cache; changes whenever its content may have changed
    name: str  # in messages: its file, and its row where a table names it
    open: Callable[[], BinaryIO]  # opens its bytes
    size: int  # number of its bytes; 0 where it is missing


class UnusableImages(CrossbiasError):
    """Some images cannot be used; the reasons say what is wrong with each, by its number."""

    def __init__(self, reasons: dict[int, str], names: Sequence[str]) -> None:
        self.reasons = reasons
        listed = first_few([f"{names[row]} {reason}" for row, reason in sorted(reasons.items())])
        super().__init__(
            f"{len(reasons):,} of {len(names):,} images cannot be used; "
            f"repair them or remove them from the data: {'; '.join(listed)}"
        )


def unreadable(error: OSError) -> str:
    """Why a file cannot be used, as the text after its name."""
    if isinstance(error, FileNotFoundError):
        return "is missing"
    return f"cannot be read ({error.strerror or error})"
