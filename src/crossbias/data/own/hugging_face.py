"""``hf:PATH``: a Hugging Face data set on disk, saved or as Parquet files."""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

from crossbias.data.images.cache import Store
from crossbias.data.images.encoded_images import EncodedImage
from crossbias.data.memory_maps import cache_folder
from crossbias.data.own.labels import SPLIT_COLUMN
from crossbias.data.own.table import LabelTable, as_text
from crossbias.data.own.table_source import Bits, TableSource
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.parameters import Count, Fraction

_SAVED = ("dataset_dict.json", "state.json")  # save_to_disk writes one of these


@dataclass(kw_only=True)
class HuggingFace(TableSource):
    """A data set that ``save_to_disk`` of ``datasets`` wrote, or a folder of Parquet files.

    It needs exactly one column of images. Class labels are read as their names. The splits of
    the data set become the column ``split``; a data set with one split may have such a column
    itself. The options are those of ``Folder``, without ``labels`` and ``file``.
    """

    name = "hf"
    summary = "a Hugging Face data set on disk: hf:PATH"

    path: str = ""
    target: str | None = None
    bias: str | None = None
    attributes: tuple[str, ...] | None = None
    split_by: str = SPLIT_COLUMN
    group_by: str | None = None
    cluster: str | None = None
    validation: Fraction = 0.1
    test: Fraction = 0.2
    size: Count = 224
    fit: Literal["crop", "squash"] = "crop"
    channels: Literal[1, 3] = 3
    depth: Bits | None = None
    store: Store = "pixels"

    @cached_property
    def table(self) -> LabelTable:
        """All columns of all splits, except the images."""
        parts, places = self._parts, self._places
        image = self._image
        names = [name for name in next(iter(parts.values())).column_names if name != image]
        columns = {
            name: [text for part in parts.values() for text in _texts(part, name)] for name in names
        }
        if set(parts) != {""}:
            columns["split"] = [split for split, _ in places]
        where = [f"{self.path} {split} row {row + 1}".replace("  ", " ") for split, row in places]
        return LabelTable(self.path, columns, where)

    @cached_property
    def items(self) -> list[EncodedImage]:
        """The image of every row."""
        contents = [each for part in self._parts.values() for each in _contents(part, self._image)]
        rows = zip(contents, self.table.where, self._places, strict=True)
        return [
            EncodedImage(
                content,
                f"{where}: the image",
                partial(_opened, self._parts[split], self._image, row),
                size,
            )
            for (content, size), where, (split, row) in rows
        ]

    @cached_property
    def _parts(self) -> dict[str, Any]:
        """The splits by name; a data set without splits has one with an empty name."""
        check_installed("datasets", what=f"reading {self.title}")
        import datasets

        if not self.path or not Path(self.path).is_dir():
            raise CrossbiasError(f"{self.path!r} is not a folder; name yours as hf:PATH")
        saved = any((Path(self.path) / name).exists() for name in _SAVED)
        if not saved and not any(Path(self.path).rglob("*.parquet")):
            raise CrossbiasError(
                f"{self.path} is neither a data set saved by save_to_disk of datasets nor a folder "
                f"of Parquet files"
            )
        try:
            if saved:
                found = datasets.load_from_disk(self.path)
            else:
                own = str(cache_folder() / "huggingface")
                found = datasets.load_dataset("parquet", data_dir=self.path, cache_dir=own)
        except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
            raise CrossbiasError(f"datasets cannot read {self.path}: {error}") from error
        return dict(found) if isinstance(found, datasets.DatasetDict) else {"": found}

    @cached_property
    def _places(self) -> list[tuple[str, int]]:
        """The split, and the row within it, of every row of the table."""
        return [(split, row) for split, part in self._parts.items() for row in range(len(part))]

    @cached_property
    def _image(self) -> str:
        """The column of images."""
        import datasets

        features = next(iter(self._parts.values())).features
        found = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
        if len(found) != 1:
            raise CrossbiasError(
                f"{self.title} needs one column of images, but has {len(found)} "
                f"({', '.join(found) or 'its columns: ' + ', '.join(features)})"
            )
        return str(found[0])


def _texts(part: Any, name: str) -> list[str]:
    """A column as text, with class labels by name."""
    kind, cells = part.features[name], part.data.column(name).to_pylist()
    if hasattr(kind, "int2str"):
        return ["" if cell is None or cell < 0 else kind.int2str(cell) for cell in cells]
    return [as_text(cell) for cell in cells]


def _contents(part: Any, image: str) -> Iterator[tuple[str, int]]:
    """Hash and size of every encoded image: a fingerprint is a text that any data set can claim."""
    for chunk in part.data.column(image).chunks:
        for cell in chunk.field("bytes"):
            content = cell.as_buffer() if cell.is_valid else b""
            yield f"content {hashlib.sha256(content).hexdigest()}", len(content)


def _opened(part: Any, image: str, row: int) -> BinaryIO:
    """The encoded image of one row."""
    cell = part.data.column(image)[row].as_py()
    if cell is None or cell["bytes"] is None:
        raise CrossbiasError("is not in the data set; save it again with its images embedded")
    return io.BytesIO(cell["bytes"])
