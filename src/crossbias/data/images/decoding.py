"""Decoding and resizing image files into one tensor, which is cached and memory-mapped."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache as remembered
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Literal

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor

from crossbias.data.images.cache import Store, cached
from crossbias.data.images.dicom import dicom_image, dicom_size, is_dicom
from crossbias.data.images.encoded_images import EncodedImage, UnusableImages, unreadable
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress

FORMATS: Final = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are read where Pillow supports them. EPS is not: Pillow runs a program for it."""

LONGEST_SIDE: Final = 2**16 - 1
"""The longest side of an image in pixels, that of JPEG."""

_LEAST_UPPER = 16  # values of 12 bits are below this in the upper eight of 16

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
CIFAR_MEAN: Final = (0.4914, 0.4822, 0.4465)
CIFAR_STD: Final = (0.2023, 0.1994, 0.2010)


@dataclass(frozen=True)
class Fit:
    """How an image file becomes pixels.

    Pixels are those that a person sees: the EXIF orientation of a photograph is applied, and
    transparent parts become white. Gray images with 16 bits keep the upper eight of the ``depth``
    bits that their values use. DICOM files are rescaled and windowed. The first of several frames
    is used, except in DICOM, where several are refused. Resizing is bilinear with antialiasing:
    ``crop`` resizes the short side and cuts out the middle square, as torchvision's ``Resize`` and
    ``CenterCrop`` do; ``squash`` resizes both sides.
    """

    size: int  # side of the square in pixels
    how: Literal["crop", "squash"] = "crop"
    channels: Literal[1, 3] = 3  # red, green and blue, or gray
    depth: int = 16  # bits that the values of 16-bit images use, from 8 to 16

    @property
    def kind(self) -> str:
        """The name of these settings in the cache."""
        bits = "" if self.depth == 16 else f"-{self.depth}bits"
        return f"{self.how}-{self.size}-{self.channels}{bits}"


def read_images(
    files: Sequence[Path],
    fit: Fit,
    *,
    names: Sequence[str] | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Tensor, str]:
    """Read image files from the cache; missing ones are decoded into it first.

    A file whose size and time of modification are unchanged is not opened again. The images are
    (n, channels, size, size) uint8, memory-mapped and read-only; they come with their
    ``tensor_digest``. ``names`` are their names in messages, by default their paths.
    """
    named = [str(file) for file in files] if names is None else names
    return read_items(file_items(files, named), fit, cache=cache, progress=progress)


def read_items(
    items: Sequence[EncodedImage],
    fit: Fit,
    *,
    store: Store = "pixels",
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Tensor, str]:
    """Like ``read_images``, for images that are not separate files.

    With ``store="bytes"``, the cache keeps the encoded images, which are decoded when they are
    read.
    """
    return cached(
        items,
        partial(decode, fit=fit),
        kind=fit.kind,
        shape=(fit.channels, fit.size, fit.size),
        store=store,
        cache=cache,
        progress=progress or Progress(),
    )


def decode(file: BinaryIO, fit: Fit) -> bytes:
    """The pixels of an image file, (channels, size, size); errors start after the file's name."""
    try:
        with open_image(file) as image:
            _check_middle(image.size, fit)
            _check_color_depth(image)
            pixels = np.asarray(_fitted(_in_colors(ImageOps.exif_transpose(image), fit), fit))
    except UnidentifiedImageError:
        raise CrossbiasError(f"is not an image ({', '.join(_formats())}, DICOM)") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise CrossbiasError(f"is too large ({error})") from None
    except CrossbiasError:
        raise
    except Exception as error:  # decoders of damaged files raise nearly everything
        raise CrossbiasError(f"is damaged ({error})") from error
    channels_last = pixels.reshape(fit.size, fit.size, fit.channels)
    return channels_last.transpose(2, 0, 1).tobytes()


def open_image(file: BinaryIO) -> Image.Image:
    """Open an image file of a known format. Its pixels are not read yet, except for DICOM."""
    if is_dicom(file):
        _check_pixels(*dicom_size(file))
        return dicom_image(file)
    image = Image.open(file, formats=_formats())
    _check_pixels(*image.size)
    return image


def wide_values(image: Image.Image) -> np.ndarray | None:
    """The values of a gray image that is stored with 16 bits; None for all other images."""
    if not image.mode.startswith("I"):
        return None
    values = np.asarray(image)
    if values.min() < 0 or values.max() >= 2**16:
        raise CrossbiasError(
            f"has values from {values.min()} to {values.max()}; save it with 8 or 16 bits"
        )
    return values


@remembered
def _formats() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def _check_pixels(width: int, height: int) -> None:
    """Refuse images above Pillow's limit, which only warns up to twice the limit, or of one line.

    This looks at the header of a file, before memory is used for its pixels.
    """
    limit = Image.MAX_IMAGE_PIXELS
    if max(width, height) > LONGEST_SIDE:
        raise CrossbiasError(
            f"is too large ({width} x {height} pixels, the longest side may be {LONGEST_SIDE})"
        )
    if limit is not None and width * height > limit:
        raise CrossbiasError(
            f"is too large ({width} x {height} pixels, the limit is {limit} "
            f"as protection from decompression bombs)"
        )


def _check_middle(size: tuple[int, int], fit: Fit) -> None:
    """Refuse long thin images, which become many pixels before their middle is cut out."""
    limit, (short, long) = Image.MAX_IMAGE_PIXELS, sorted(size)
    if fit.how == "crop" and limit is not None and fit.size**2 * long > limit * short:
        raise CrossbiasError(
            f"is too large (the middle of {size[0]} x {size[1]} pixels at a short side of "
            f"{fit.size} needs more than {limit} pixels)"
        )


def _check_color_depth(image: Image.Image) -> None:
    """Refuse color images of 16 bits of whose values hardly anything is left in the upper eight.

    Pillow reads no more than these. It says so only before the pixels are read.
    """
    if not isinstance(image, ImageFile.ImageFile):  # DICOM, which is scaled by the bits it uses
        return
    arguments = [tile.args for tile in image.tile]
    if not any(";16" in str(argument) for argument in arguments) or image.mode.startswith("I"):
        return
    if np.asarray(image)[..., :3].max() < _LEAST_UPPER:  # transparency is no color
        raise CrossbiasError(
            "is a color image with 16 bits whose values need 12 bits or fewer; only the upper "
            "eight of the 16 are read, which makes it nearly black; save it with 8 bits"
        )


def _in_colors(image: Image.Image, fit: Fit) -> Image.Image:
    if image.mode == "F":
        raise CrossbiasError("has floating-point pixels; save it with 8 or 16 bits")
    values = wide_values(image)
    if values is not None:
        if values.max() >= 2**fit.depth:
            raise CrossbiasError(
                f"has the value {values.max()}, which needs {int(values.max()).bit_length()} bits, "
                f"but depth={fit.depth}; declare the bits of your images with depth="
            )
        image = Image.fromarray((values >> (fit.depth - 8)).astype(np.uint8))
    elif image.has_transparency_data:
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    return image.convert("RGB" if fit.channels == 3 else "L")


def _fitted(image: Image.Image, fit: Fit) -> Image.Image:
    size = fit.size
    if fit.how == "squash":
        return image.resize((size, size), Image.Resampling.BILINEAR)
    short = min(image.size)
    # Like torchvision: the long side is rounded down, the middle to the even number.
    width, height = (int(size * side / short) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + size, top + size))


def file_items(
    files: Sequence[Path], names: Sequence[str], *, present: bool = True
) -> list[EncodedImage]:
    """Files identified by path, size and time of modification, which reveal changes.

    With ``present``, missing files are refused; otherwise each is refused when it is opened.
    """
    items, reasons = [], {}
    state: tuple[int, ...]
    for row, file in enumerate(files):
        try:
            status = os.stat(file)
            size, state = status.st_size, (status.st_size, status.st_mtime_ns)
        except OSError as error:
            reasons[row], size, state = unreadable(error), 0, ()
        identity = repr((os.path.abspath(file), *state))
        items.append(EncodedImage(identity, names[row], partial(_opened, file), size))
    if reasons and present:
        raise UnusableImages(reasons, names)
    return items


def _opened(path: Path) -> BinaryIO:
    return open(path, "rb")
