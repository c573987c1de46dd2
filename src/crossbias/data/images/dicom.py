"""DICOM files as pictures: rescaled, windowed and inverted as a viewer shows them.

Only the elements that describe pixels are read. What identifies a patient stays in the file.
"""

from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
from PIL import Image

from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed

if TYPE_CHECKING:
    from pydicom import Dataset

_PREAMBLE: Final = 128  # bytes before the letters DICM
_PIXEL_ELEMENTS: Final = (
    *("Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation"),
    *("PlanarConfiguration", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
    *("PixelData", "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "VOILUTSequence"),
    *("WindowCenter", "WindowWidth", "VOILUTFunction"),
    *(
        f"{kind}{color}PaletteColorLookupTable{part}"
        for color in ("Red", "Green", "Blue")
        for kind, part in (("", "Descriptor"), ("", "Data"), ("Segmented", "Data"))
    ),
)
_GRAY: Final = ("MONOCHROME1", "MONOCHROME2")
_COLORS: Final = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT", "PALETTE COLOR")


def is_dicom(file: BinaryIO) -> bool:
    """Whether a file begins like DICOM; its position stays where it was."""
    place = file.tell()
    head = file.read(_PREAMBLE + 4)
    file.seek(place)
    return head[_PREAMBLE:] == b"DICM"


def dicom_size(file: BinaryIO) -> tuple[int, int]:
    """Width and height of a DICOM image, from its header; its position stays where it was."""
    place = file.tell()
    found = _read(file, ("Rows", "Columns"), header=True)
    file.seek(place)
    return int(found.get("Columns", 0)), int(found.get("Rows", 0))


def dicom_image(file: BinaryIO) -> Image.Image:
    """The picture in a DICOM file, gray or in colors, with 8 bits.

    Gray values are rescaled (modality LUT, or slope and intercept), then windowed (VOI LUT, or
    the first window; without either, all values that ``BitsStored`` allows), and inverted for
    MONOCHROME1. Errors start after the file's name.
    """
    found = _read(file, _PIXEL_ELEMENTS)
    _check_supported(found)
    try:
        stored = found.pixel_array
        if found.PhotometricInterpretation in _GRAY:
            return Image.fromarray(_as_bytes(_shown(stored, found)))
        return Image.fromarray(_as_bytes(_colored(stored, found)))
    except CrossbiasError:
        raise
    except Exception as error:  # its text may hold values of the file
        raise CrossbiasError(f"is damaged (DICOM, {type(error).__name__})") from error


def windowed(values: np.ndarray, center: float, width: float, function: str) -> np.ndarray:
    """Values in a window as brightness from 0 to 1 (DICOM PS3.3, C.11.2.1.2 and C.11.2.1.3).

    >>> windowed(np.array([0.0, 50.0, 100.0]), 50, 101, "LINEAR").round(3).tolist()
    [0.005, 0.505, 1.0]
    """
    if function == "SIGMOID":
        return np.asarray(1 / (1 + np.exp(-4 * (values - center) / width)))
    if function == "LINEAR_EXACT":
        return np.asarray(np.clip((values - center) / width + 0.5, 0, 1))
    if width <= 1:  # a step: the formula below would divide by zero
        return np.where(values > center - 0.5, 1.0, 0.0)
    return np.asarray(np.clip((values - (center - 0.5)) / (width - 1) + 0.5, 0, 1))


def _read(file: BinaryIO, elements: tuple[str, ...], *, header: bool = False) -> "Dataset":
    check_installed("pydicom", what="a DICOM file", instead="convert it to PNG")
    import pydicom

    try:
        return pydicom.dcmread(file, specific_tags=list(elements), stop_before_pixels=header)
    except Exception as error:  # its text may hold values of the file
        raise CrossbiasError(f"is damaged (DICOM, {type(error).__name__})") from error


def _check_supported(found: "Dataset") -> None:
    """Refuse what has no picture, several pictures, or a compression nobody here can decode."""
    from pydicom.pixels.decoders.base import get_decoder

    if "PixelData" not in found:
        raise CrossbiasError("is a DICOM file without pixels of 8 or 16 bits")
    frames = int(found.get("NumberOfFrames") or 1)
    if frames > 1:
        raise CrossbiasError(
            f"is a DICOM file with {frames} frames; save the frame that shows the finding as a "
            f"file of its own"
        )
    kind = found.get("PhotometricInterpretation")
    if kind not in (*_GRAY, *_COLORS):
        raise CrossbiasError(
            f"is a DICOM file with the photometric interpretation {kind!r}; convert it to one of "
            f"{', '.join((*_GRAY, *_COLORS))}"
        )
    syntax: Any = found.file_meta.TransferSyntaxUID
    if not syntax.is_compressed:
        return
    try:
        decodes = get_decoder(syntax).is_available
    except NotImplementedError:
        decodes = False
    if not decodes:
        raise CrossbiasError(
            f"is a DICOM file compressed as {syntax.name}, which no installed package decodes; "
            f"install pylibjpeg[all], or save it without compression"
        )


def _shown(stored: np.ndarray, found: "Dataset") -> np.ndarray:
    """Gray values as brightness from 0 to 1."""
    from pydicom.pixels.processing import apply_modality_lut, apply_voi

    values = np.asarray(apply_modality_lut(stored, found), dtype=np.float64)
    if found.get("VOILUTSequence"):
        bits = found.VOILUTSequence[0].LUTDescriptor[2]
        brightness = np.asarray(apply_voi(values.astype(np.int64), found)) / (2**bits - 1)
    elif found.get("WindowCenter") is not None and found.get("WindowWidth") is not None:
        center, width = _first(found.WindowCenter), _first(found.WindowWidth)
        if not width > 0:
            raise CrossbiasError(f"is a DICOM file whose window has the width {width:g}")
        function = found.get("VOILUTFunction") or "LINEAR"
        brightness = windowed(values, center, width, function)
    else:
        low, high = _possible(found)
        if not high > low:
            raise CrossbiasError("is a DICOM file whose rescale slope makes all values equal")
        brightness = np.clip((values - low) / (high - low), 0, 1)
    negative = found.PhotometricInterpretation == "MONOCHROME1"
    return np.asarray(1 - brightness if negative else brightness)


def _possible(found: "Dataset") -> tuple[float, float]:
    """The lowest and highest value that the stored bits allow, rescaled."""
    from pydicom.pixels.processing import apply_modality_lut

    if sequence := found.get("ModalityLUTSequence"):
        return 0.0, float(2 ** sequence[0].LUTDescriptor[2] - 1)
    bits = found.BitsStored
    least = -(2 ** (bits - 1)) if found.PixelRepresentation else 0
    ends = (least, least + 2**bits - 1)
    low, high = sorted(np.asarray(apply_modality_lut(np.array(ends), found), float).tolist())
    return low, high


def _colored(stored: np.ndarray, found: "Dataset") -> np.ndarray:
    """Colors as brightness from 0 to 1, (height, width, 3); pydicom has made them RGB."""
    from pydicom.pixels.processing import apply_color_lut

    bits = found.BitsStored
    if found.PhotometricInterpretation == "PALETTE COLOR":
        stored = apply_color_lut(stored, found)
        bits = 8 * stored.dtype.itemsize
    return np.asarray(stored[..., :3] / (2**bits - 1))


def _as_bytes(brightness: np.ndarray) -> np.ndarray:
    return np.asarray(255 * brightness).round().astype(np.uint8)


def _first(value: Any) -> float:
    """The first of several values."""
    from pydicom.multival import MultiValue

    return float(value[0] if isinstance(value, MultiValue) else value)
