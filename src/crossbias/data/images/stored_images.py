"""StoredImages: a tensor of images that stay in the files of the cache until they are read."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol, cast

import torch
from torch import Tensor

from crossbias.data.memory_maps import mapped
from crossbias.errors import CrossbiasError

MOST_OPEN: Final = 128
"""Shards that a process holds open; each takes one of the files that it may have open."""

_aten = torch.ops.aten


class StoredShard(Protocol):
    """A part of the images."""

    decoded_when_read: bool

    def __len__(self) -> int: ...

    def opened(self) -> Callable[[Tensor], Tensor]:
        """Open the files; the result reads the images at some positions of this shard."""


class PixelShard:
    """Decoded images in one file.

    Args:
        path: The file.
        shape: Number of the images, and shape of one.
    """

    decoded_when_read = False

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.path = path
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]

    def opened(self) -> Callable[[Tensor], Tensor]:
        """Map the file into memory."""
        try:
            return mapped(self.path, self.shape).__getitem__
        except (OSError, ValueError) as error:  # numpy's for a file that is too short
            raise CrossbiasError(
                f"cannot read {self.path} of the cache: {error}; start again, and its images are "
                f"decoded again"
            ) from error


class StoredImages(Tensor):
    """Images or clips in shards, uint8, which are read when they are asked for.

    It is a tensor: whoever takes rows of it gets them as an ordinary tensor, and any other
    operation reads all of it first. Shards are opened when a row of them is needed.
    """

    # Results of operations are ordinary tensors.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, shards: Sequence[StoredShard], shape: tuple[int, ...], frames: int = 1) -> Any:
        """The images of all shards, ``shape`` each; so many frames in a row are one clip."""
        rows = sum(map(len, shards)) // frames
        each = shape if frames == 1 else (shape[0], frames, *shape[1:])
        make = cast("Callable[..., Any]", Tensor._make_wrapper_subclass)
        return make(cls, (rows, *each), dtype=torch.uint8)

    def __init__(
        self, shards: Sequence[StoredShard], shape: tuple[int, ...], frames: int = 1
    ) -> None:
        self.shards = shards
        self.frames = frames
        self.image_shape = shape
        self._ends = torch.tensor([len(shard) for shard in shards]).cumsum(0)
        self._open: OrderedDict[int, Callable[[Tensor], Tensor]] = OrderedDict()
        self._opening = Lock()  # threads read, too

    @property
    def decoded_when_read(self) -> bool:
        """Whether reading an image decodes it."""
        return any(shard.decoded_when_read for shard in self.shards)

    def clips(self, frames: int) -> "StoredImages":
        """The images as clips of so many frames, ``(n / T, C, T, H, W)``."""
        return StoredImages(self.shards, self.image_shape, frames)

    def rows(self, numbers: Tensor) -> Tensor:
        """The images or clips at some positions (B,), from 0 to n - 1, as an ordinary tensor."""
        if self.frames == 1:
            return self._images(numbers)
        each = (numbers[:, None] * self.frames + torch.arange(self.frames)).flatten()
        return _as_clips(self._images(each), self.frames)

    def _images(self, numbers: Tensor) -> Tensor:
        found = torch.empty(len(numbers), *self.image_shape, dtype=torch.uint8)
        places = torch.searchsorted(self._ends, numbers, right=True)
        for shard in set(places.tolist()):
            here = (places == shard).nonzero().squeeze(1)
            first = int(self._ends[shard]) - len(self.shards[shard])
            found[here] = self._reader(shard)(numbers[here] - first)
        return found

    def _reader(self, shard: int) -> Callable[[Tensor], Tensor]:
        with self._opening:
            if shard not in self._open:
                self._open[shard] = self.shards[shard].opened()
                if len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(shard)
            return self._open[shard]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[row] for row in range(len(self)))

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        shape, shards = tuple(self.shape), f"{len(self.shards)} shards"
        return f"StoredImages({shape}, {shards}, uint8)"

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return StoredImages, (self.shards, self.image_shape, self.frames)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        first = args[0] if args else None
        if (
            isinstance(first, StoredImages)
            and (numbers := _rows_asked(func, first, args)) is not None
        ):
            return first.rows(numbers) if numbers.ndim else first.rows(numbers[None])[0]
        whole = torch.utils._pytree.tree_map_only(
            StoredImages,
            lambda images: images.rows(torch.arange(len(images))),
            (args, kwargs or {}),
        )
        return func(*whole[0], **whole[1])


def as_clips(images: Tensor, frames: int) -> Tensor:
    """Images (n T, C, H, W) as clips (n, C, T, H, W); those of the cache stay there."""
    if isinstance(images, StoredImages):
        return images.clips(frames)
    return _as_clips(images, frames)


def _as_clips(images: Tensor, frames: int) -> Tensor:
    return images.view(-1, frames, *images.shape[1:]).transpose(1, 2)


def _rows_asked(func: Any, images: StoredImages, args: Any) -> Tensor | None:
    """The rows that an operation asks for, (B,), or () for one; None if it is another operation."""
    if func is _aten.select.int and args[1] == 0:
        return torch.tensor(range(len(images))[args[2]])
    if func is _aten.slice.Tensor and args[1:2] in ((), (0,)):
        return torch.tensor(range(len(images))[slice(*args[2:5])], dtype=torch.int64)
    if func is _aten.index.Tensor and len(args[1]) == 1 and args[1][0].ndim == 1:
        asked: Tensor = args[1][0]
        if asked.dtype == torch.bool:
            if len(asked) != len(images):
                raise IndexError(f"a mask of {len(asked)} rows for {len(images)} images")
            return asked.nonzero().squeeze(1)
        return _in_range(asked.cpu().long(), len(images))
    if func is _aten.index_select.default and args[1] == 0:
        return _in_range(args[2].cpu().long(), len(images))
    return None


def _in_range(rows: Tensor, length: int) -> Tensor:
    """Positions from 0 on, for those that may count from the end."""
    if len(rows) and not -length <= int(rows.min()) <= int(rows.max()) < length:
        raise IndexError(f"rows {int(rows.min())} to {int(rows.max())} of {length} images")
    return torch.where(rows < 0, rows + length, rows)
