"""pack: write samples that come one after the other, such as a stream, to WebDataset tars."""

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from crossbias.data.images.cache_array import SHARD_BYTES
from crossbias.data.images.decoding import FORMATS
from crossbias.data.own.tar_samples import tar_samples
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.progress import Progress
from crossbias.runs.files import write_atomically

_ENDINGS = {"JPEG": "jpg", "JPEG2000": "jpg", "TIFF": "tif"}  # others are the format in lower case
_BLOCK = 512  # bytes that a tar is written in


def pack(
    samples: Iterable[Mapping[str, Any]],
    folder: Path | str,
    *,
    split: str = "train",
    tar_bytes: int = SHARD_BYTES,
    progress: Progress | None = None,
) -> int:
    """Write samples to tars that ``webdataset:FOLDER`` reads; return the number of all samples.

    One sample at a time is in memory. Each tar is whole or absent. A call that was interrupted is
    continued by the same call, which skips the samples that are already in tars.

    Args:
        samples: A Hugging Face data set, streamed or not, or dictionaries. Each sample has one
            image, as encoded bytes or a PIL image, and its labels.
        folder: Where to write ``SPLIT-000000.tar`` and so on.
        split: Name of the split.
        tar_bytes: The largest size of a tar; only a single sample that is larger has a larger one.
        progress: Receives reports.
    """
    folder, progress = Path(folder), progress or Progress()
    names = _Names(samples)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CrossbiasError(f"cannot write {folder}: {error.strerror or error}") from error
    number, done = 0, 0
    while (tar := folder / f"{split}-{number:06d}.tar").exists():
        done += sum(1 for _ in tar_samples(tar))
        number += 1
    if done:
        progress.note(f"{folder} has {done:,} samples in {number:,} tars of {split}; going on")
    left = names.files(_without_first(names.encoded(samples), done), done)
    while (first := next(left, None)) is not None:
        writer = _TarWriter(chain([first], left), tar_bytes)
        write_atomically(folder / f"{split}-{number:06d}.tar", writer.write)
        left, done, number = writer.left, done + writer.count, number + 1
        progress.note(f"{folder}: {done:,} samples in {number:,} tars of {split}")
    return done


def streamed(name: str, split: str) -> Any:
    """A split of a Hugging Face data set on a hub or in a folder, which is not downloaded first."""
    check_installed("datasets", what=f"reading {name}")
    import datasets

    try:
        return datasets.load_dataset(name, split=split, streaming=True)
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).splitlines()[0]
        raise CrossbiasError(f"datasets cannot read {split} of {name}: {reason}") from error


class _TarWriter:
    """Writes samples to a tar until the next one does not fit."""

    def __init__(self, samples: Iterator[dict[str, bytes]], limit: int) -> None:
        self.left, self.limit, self.count = samples, limit, 0

    def write(self, file: BinaryIO) -> None:
        """Write the tar; ``left`` has the samples that are not in it."""
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for sample in self.left:
                size = sum(_BLOCK + _padded(len(content)) for content in sample.values())
                if self.count and file.tell() + size + 2 * _BLOCK > self.limit:
                    self.left = chain([sample], self.left)
                    return
                for name, content in sample.items():
                    about = tarfile.TarInfo(name)  # time 0: the same samples give the same bytes
                    about.size = len(content)
                    tar.addfile(about, io.BytesIO(content))
                self.count += 1


class _Names:
    """What a data set calls its columns and the values in them."""

    def __init__(self, samples: Any) -> None:
        self.features: Mapping[str, Any] = getattr(samples, "features", None) or {}

    def encoded(self, samples: Any) -> Any:
        """The same data set without decoding its images."""
        for name, kind in self.features.items():
            if type(kind).__name__ == "Image":
                import datasets

                samples = samples.cast_column(name, datasets.Image(decode=False))
        return samples

    def files(self, samples: Iterable[Mapping[str, Any]], first: int) -> Iterator[dict[str, bytes]]:
        """The files of every sample, by name."""
        for number, sample in enumerate(samples, first):
            images = {name: found for name, cell in sample.items() if (found := _image(cell))}
            if len(images) != 1:
                raise CrossbiasError(
                    f"sample {number} has {len(images)} images ({', '.join(images) or 'columns: '}"
                    f"{'' if images else ', '.join(sample)}); each needs one"
                )
            ((column, content),) = images.items()
            labels = {name: self._label(name, cell) for name, cell in sample.items()
                      if name != column and _is_label(cell)}  # fmt: skip
            key = f"{number:09d}"
            text = json.dumps(labels, ensure_ascii=False, allow_nan=True)
            yield {f"{key}.{_ending(content, number)}": content, f"{key}.json": text.encode()}

    def _label(self, name: str, cell: Any) -> Any:
        """A label; the number of a class is written as its name."""
        kind: Any = self.features.get(name)
        if not hasattr(kind, "int2str"):
            return cell
        return None if cell is None or cell < 0 else kind.int2str(cell)


def _without_first(samples: Any, count: int) -> Iterable[Mapping[str, Any]]:
    if count and hasattr(samples, "skip"):  # a stream may pass over whole files
        skipped: Iterable[Mapping[str, Any]] = samples.skip(count)
        return skipped
    return islice(samples, count, None)


def _image(cell: Any) -> bytes | None:
    """The encoded image in a cell, if there is one."""
    if isinstance(cell, Mapping) and isinstance(cell.get("bytes"), bytes):
        cell = cell["bytes"]
    if isinstance(cell, Image.Image):
        file = io.BytesIO()
        cell.save(file, format="PNG")
        return file.getvalue()
    return cell if isinstance(cell, bytes) and cell else None


def _is_label(cell: Any) -> bool:
    return cell is None or isinstance(cell, str | int | float)


def _ending(content: bytes, number: int) -> str:
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            kind = image.format or ""
    except Exception as error:  # decoders of damaged files raise nearly everything
        raise CrossbiasError(f"the image of sample {number} cannot be read ({error})") from error
    return _ENDINGS.get(kind, kind.lower())


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
