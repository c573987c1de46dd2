"""Rows that some array of the cache holds already, so that no file is decoded twice."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from crossbias.data.cache_entry import Made, Record, read_records


class _Place(NamedTuple):
    path: Path
    number: int
    record: Record


class KnownRows:
    """The rows of all arrays of one kind, by identity or by content.

    A file that moved, or moved to another split, keeps its content; its pixels are copied.

    Args:
        kind: Folder of the arrays.
        row_bytes: Size of a row.
    """

    def __init__(self, kind: Path, row_bytes: int) -> None:
        self.row_bytes = row_bytes
        self._places: dict[bytes, _Place] = {}
        for folder in sorted(kind.iterdir()):
            for number, record in enumerate(read_records(folder)):
                place = _Place(folder / "pixels", number, record)
                self._places[record.identity] = self._places[record.content] = place

    def find(self, key: bytes) -> Made | None:
        """The row with this identity or content, if its pixels are those that were written."""
        place = self._places.get(key)
        if place is None:
            return None
        try:
            with open(place.path, "rb") as file:
                file.seek(place.number * self.row_bytes)
                pixels = file.read(self.row_bytes)
        except OSError:
            return None  # deleted meanwhile; it is decoded again
        if hashlib.sha256(pixels).digest() != place.record.pixels:
            return None
        return Made(place.record.content, pixels)
