"""Image files as one tensor: decoded and resized once, then read from a memory map."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache as remembered
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Literal

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from crossbias.data.images.cache import cached
from crossbias.data.images.encoded_images import EncodedImage, UnusableImages, unreadable
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress

FORMATS: Final = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What is read, as far as Pillow is built with it. Not EPS, for which it starts a program."""

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Fit:
    """How an image file becomes pixels.

    Pixels are those a person sees: the orientation in a photograph's EXIF data is applied, and
    transparency is laid over white. Images of 16 bits keep the upper eight of each value; of
    several frames the first is taken. Resizing is bilinear with antialiasing.

    Args:
        size: Side of the square.
        how: ``crop`` resizes the short side to ``size`` and keeps the middle square, as
            torchvision's ``Resize`` and ``CenterCrop``; ``squash`` resizes both sides to ``size``.
        channels: 3 for red, green and blue, 1 for grey.
    """

    size: int
    how: Literal["crop", "squash"] = "crop"
    channels: Literal[1, 3] = 3


def read_images(
    files: Sequence[Path],
    fit: Fit,
    *,
    names: Sequence[str] | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Tensor, str]:
    """The images of some files, from the cache; what is not there yet is decoded into it.

    The same files, unchanged in size and time of modification, are not even opened again.

    Args:
        files: One image each.
        fit: How they become pixels.
        names: What to call them in messages; their paths if left out.
        cache: Folder of the cache; else that named by the environment variable
            ``CROSSBIAS_CACHE``; else ``crossbias`` in the user's cache folder.
        progress: Hears how far the decoding is.

    Returns:
        ``(n, channels, size, size)`` uint8, mapped into memory and only to be read, and its
        digest, equal to ``tensor_digest`` of it.

    Raises:
        UnusableImages: Files are missing, unreadable, damaged or no images.
        CrossbiasError: The cache cannot be written, or does not fit on the disk.
    """
    named = [str(file) for file in files] if names is None else names
    return read_items(_items(files, named), fit, cache=cache, progress=progress)


def read_items(
    items: Sequence[EncodedImage],
    fit: Fit,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Tensor, str]:
    """As ``read_images``, for images that are not files of their own."""
    return cached(
        items,
        lambda file: decode(file, fit),
        kind=f"{fit.how}-{fit.size}-{fit.channels}",
        shape=(fit.channels, fit.size, fit.size),
        cache=cache,
        progress=progress or Progress(),
    )


def decode(file: BinaryIO, fit: Fit) -> bytes:
    """The pixels of an image file, (channels, size, size).

    Raises:
        CrossbiasError: It is no image, damaged, or too large; the message says only that.
    """
    try:
        with Image.open(file, formats=_formats()) as image:
            _check_pixels(*image.size)
            pixels = np.asarray(_fitted(_in_colors(ImageOps.exif_transpose(image), fit), fit))
    except UnidentifiedImageError:
        raise CrossbiasError(f"is not an image ({', '.join(_formats())})") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise CrossbiasError(f"is too large ({error})") from None
    except CrossbiasError:
        raise
    except Exception as error:  # decoders of damaged files raise nearly everything
        raise CrossbiasError(f"is damaged ({error})") from error
    channels_last = pixels.reshape(fit.size, fit.size, fit.channels)
    return channels_last.transpose(2, 0, 1).tobytes()


@remembered
def _formats() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def _check_pixels(width: int, height: int) -> None:
    """Pillow only warns of images up to twice its limit."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and width * height > limit:
        raise CrossbiasError(
            f"is too large ({width} x {height} pixels, the limit is {limit} "
            f"as protection from decompression bombs)"
        )


def _in_colors(image: Image.Image, fit: Fit) -> Image.Image:
    if image.mode == "F":
        raise CrossbiasError("has floating-point pixels; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() >= 2**16:
            raise CrossbiasError("has pixels of more than 16 bits; save it with 8 or 16")
        image = Image.fromarray((values >> 8).astype(np.uint8))
    elif image.has_transparency_data:
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    return image.convert("RGB" if fit.channels == 3 else "L")


def _fitted(image: Image.Image, fit: Fit) -> Image.Image:
    size = fit.size
    if fit.how == "squash":
        return image.resize((size, size), Image.Resampling.BILINEAR)
    short = min(image.size)
    # As torchvision: the long side rounded down, the middle rounded to even.
    width, height = (int(size * side / short) for side in image.size)
    _check_pixels(width, height)
    left, top = round((width - size) / 2), round((height - size) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + size, top + size))


def _items(files: Sequence[Path], names: Sequence[str]) -> list[EncodedImage]:
    """Files by path, size and time of modification, which tell whether one was changed."""
    items, reasons = [], {}
    for row, file in enumerate(files):
        try:
            status = os.stat(file)
        except OSError as error:
            reasons[row] = unreadable(error)
        else:
            identity = repr((os.path.abspath(file), status.st_size, status.st_mtime_ns))
            items.append(EncodedImage(identity, names[row], partial(_opened, file)))
    if reasons:
        raise UnusableImages(reasons, names)
    return items


def _opened(path: Path) -> BinaryIO:
    return open(path, "rb")
