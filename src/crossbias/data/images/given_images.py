"""Images given in Python, made into pixels as the image files of a data set are."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from crossbias.data.images.decoding import Fit, decode
from crossbias.data.images.encoded_images import unreadable
from crossbias.errors import CrossbiasError

_PNG = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")  # modes that PNG keeps; TIFF keeps the others


def as_inputs(given: Any, shape: Sequence[int], fit: Fit) -> Tensor:
    """Inputs of one shape, ``(n, *shape)``.

    Args:
        given: Inputs of that shape as one tensor or array; or images of any size: a uint8 tensor
            or array ``(n, C, H, W)``, an array ``(n, H, W, 3)``, a list of files, PIL images and
            uint8 arrays ``(H, W)`` or ``(H, W, 3)``, or a single file or PIL image.
        shape: Shape of one input.
        fit: How images of another size become pixels.
    """
    if isinstance(given, np.ndarray) and given.ndim == len(shape) + 1:
        given = list(given) if _channels_last(given) else torch.from_numpy(given)
    if isinstance(given, Tensor) and list(given.shape[1:]) == list(shape):
        wanted = given.is_floating_point() if len(shape) == 1 else given.dtype == torch.uint8
        if wanted:
            return given.cpu()
    if list(shape) != [fit.channels, fit.size, fit.size] or fit.channels not in (1, 3):
        raise CrossbiasError(
            f"the model takes inputs of {' x '.join(map(str, shape))}, got {_named(given)}; "
            f"pass one tensor of such inputs"
        )
    listed = _listed(given)
    if not listed:
        raise CrossbiasError("there are no images to predict; pass at least one")
    pixels = b"".join(_decoded(image, number, fit) for number, image in enumerate(listed))
    return torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(-1, *shape)


def _channels_last(array: "np.ndarray[Any, Any]") -> bool:
    """Whether an array is ``(n, H, W, C)``, as PIL and NumPy have images."""
    return array.ndim == 4 and array.shape[3] in (1, 3) and array.shape[1] not in (1, 3)


def _listed(given: Any) -> list[Any]:
    """The images one by one."""
    if isinstance(given, str | Path | Image.Image) or getattr(given, "ndim", 0) in (2, 3):
        return [given]
    if isinstance(given, list | tuple | Tensor):
        return list(given)
    raise CrossbiasError(
        f"images are {_named(given)}; pass files, PIL images or uint8 arrays (H, W, 3) in a list, "
        f"or one uint8 tensor (n, C, H, W)"
    )


def _decoded(given: Any, number: int, fit: Fit) -> bytes:
    """The pixels of one image."""
    name = str(given) if isinstance(given, str | Path) else f"image {number}"
    try:
        with _opened(given) as file:
            return decode(file, fit)
    except OSError as error:
        raise CrossbiasError(f"{name} {unreadable(error)}") from error
    except CrossbiasError as error:
        raise CrossbiasError(f"{name} {error}") from error


def _opened(given: Any) -> BinaryIO:
    """A file with the image in it: the one that is named, or one in memory."""
    if isinstance(given, str | Path):
        return open(given, "rb")
    image = ImageOps.exif_transpose(given if isinstance(given, Image.Image) else _pictured(given))
    file = io.BytesIO()
    image.save(file, format="PNG" if image.mode in _PNG else "TIFF")
    file.seek(0)
    return file


def _pictured(given: Any) -> Image.Image:
    """A PIL image of an array (H, W) or (H, W, C), or of a tensor (C, H, W)."""
    array = given.movedim(0, -1).cpu().numpy() if isinstance(given, Tensor) else given
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8:
        raise CrossbiasError(f"is {_named(given)}; pass a file, a PIL image or a uint8 array")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim != 2 and array.shape[2:] not in ((3,), (4,)):
        wanted = "(C, H, W)" if isinstance(given, Tensor) else "(H, W) or (H, W, 3)"
        raise CrossbiasError(f"has the shape {tuple(given.shape)}; it must be {wanted}")
    return Image.fromarray(np.ascontiguousarray(array))


def _named(given: Any) -> str:
    """What was given, in words."""
    shape = getattr(given, "shape", None)
    return f"a {type(given).__name__}" + (f" {tuple(shape)} {given.dtype}" if shape else "")
