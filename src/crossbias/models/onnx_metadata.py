"""What crossbias writes into an ONNX file beside the network, and reads from it again.

Every entry is JSON under a key of its own, so that other programs can read it too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from crossbias.errors import CrossbiasError
from crossbias.networks.network import Normalization

Pixels = Literal["uint8", "float"]
"""Bytes from 0 to 255, or floating-point numbers from 0 to 1."""

_PREFIX: Final = "crossbias."
_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class OnnxMetadata:
    """What a file says about its network.

    Args:
        classes: Names of the classes, in the order of the logits.
        shape: Shape of one input.
        pixels: What an input holds; None for vectors.
        normalization: Mean and deviation with which the network normalizes its inputs itself.
        reading: How image files become pixels beside the size: ``fit`` and ``depth``, as the
            options of a folder; empty if the training did not read files.
        origin: Method, data and version of crossbias that the network comes from, for people.
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    pixels: Pixels | None
    normalization: Normalization | None
    reading: Mapping[str, Any]
    origin: Mapping[str, Any]

    def to_properties(self) -> dict[str, str]:
        """The entries of the file."""
        entries = {
            "format": _FORMAT,
            "classes": self.classes,
            "shape": self.shape,
            "input": self.pixels,
            "normalization_inside": self.normalization,
            "reading": dict(self.reading),
            "origin": dict(self.origin),
        }
        return {_PREFIX + name: json.dumps(value) for name, value in entries.items()}

    @classmethod
    def from_properties(cls, found: Mapping[str, str], name: str) -> "OnnxMetadata | None":
        """What the entries of a file say; None for a file that crossbias did not write.

        Raises:
            CrossbiasError: The entries are damaged, or a newer crossbias wrote them.
        """
        if _PREFIX + "format" not in found:
            return None
        try:
            entries = {
                key.removeprefix(_PREFIX): json.loads(value)
                for key, value in found.items()
                if key.startswith(_PREFIX)
            }
            if entries["format"] != _FORMAT:
                raise CrossbiasError(
                    f"{name} has metadata of format {entries['format']}, this crossbias reads "
                    f"{_FORMAT}; export it again"
                )
            return cls(
                classes=tuple(map(str, entries["classes"])),
                shape=tuple(map(int, entries["shape"])),
                pixels=entries["input"],
                normalization=_normalization(entries["normalization_inside"]),
                reading=dict(entries["reading"]),
                origin=dict(entries["origin"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CrossbiasError):
                raise
            raise CrossbiasError(
                f"the metadata of {name} is damaged ({type(error).__name__}: {error}); export it "
                f"again"
            ) from error


def _normalization(found: Any) -> Normalization | None:
    if found is None:
        return None
    mean, std = found
    return tuple(map(float, mean)), tuple(map(float, std))
