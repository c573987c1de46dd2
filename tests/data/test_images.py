"""Image files become the pixels a person sees, or are refused by name."""

import io
import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as reference

from crossbias.data.dataset import tensor_digest
from crossbias.data.images.decoding import Fit, decode, read_images
from crossbias.data.images.encoded_images import UnusableImages
from crossbias.errors import CrossbiasError

from .pictures import noise, save, some_files


def decoded(image: Image.Image, fit: Fit, kind: str = "PNG", **options) -> np.ndarray:
    file = io.BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return np.frombuffer(decode(file, fit), np.uint8).reshape(fit.channels, fit.size, fit.size)


@pytest.mark.parametrize(("width", "height"), [(40, 30), (30, 40), (31, 47), (12, 12), (90, 13)])
@pytest.mark.parametrize("size", [12, 15])
def test_crop_is_resize_and_center_crop_of_torchvision(width, height, size):
    image = Image.fromarray(noise(width, height))
    transform = v2.Compose([v2.Resize(size), v2.CenterCrop(size), v2.PILToTensor()])
    assert np.array_equal(decoded(image, Fit(size)), transform(image).numpy())


def test_squash_resizes_both_sides():
    image = Image.fromarray(noise(40, 30))
    expected = reference.pil_to_tensor(reference.resize(image, [16, 16]))
    assert np.array_equal(decoded(image, Fit(16, "squash")), expected.numpy())


def test_grey_and_color_files_are_read_in_the_channels_asked_for():
    color, grey = Image.fromarray(noise(20, 20)), Image.fromarray(noise(20, 20)).convert("L")
    assert np.array_equal(decoded(color, Fit(20, channels=1))[0], np.asarray(grey))
    assert np.array_equal(decoded(grey, Fit(20)), np.stack([np.asarray(grey)] * 3))


def test_the_orientation_of_a_photograph_is_applied():
    image, exif = Image.fromarray(noise(20, 20)), Image.Exif()
    exif[274] = 6  # to be turned by 90 degrees, clockwise
    expected = np.rot90(np.asarray(image), -1).transpose(2, 0, 1)
    assert np.array_equal(decoded(image, Fit(20), exif=exif), expected)


def test_transparency_is_laid_over_white():
    pixels = np.full((8, 8, 4), (255, 0, 0, 0), np.uint8)
    pixels[:, 4:, 3] = 255
    found = decoded(Image.fromarray(pixels), Fit(8))
    assert (found[:, :, :4] == 255).all()
    assert (found[:, :, 4:] == np.array([255, 0, 0])[:, None, None]).all()


def test_sixteen_bits_keep_the_upper_eight():
    values = np.arange(0, 65536, 1024, dtype=np.uint16).reshape(8, 8)
    found = decoded(Image.fromarray(values), Fit(8, channels=1))
    assert np.array_equal(found[0], values // 256)


def test_the_tensor_holds_the_files_in_order_and_its_digest(tmp_path):
    files = some_files(tmp_path / "files")
    images, digest = read_images(files, Fit(8), cache=tmp_path / "cache")
    expected = np.stack([decoded(Image.open(file), Fit(8)) for file in files])
    assert images.dtype == torch.uint8
    assert np.array_equal(images.numpy(), expected)
    assert digest == tensor_digest(images)


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """A small PNG file of many black pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1000))
    parts = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def whole_jpeg() -> bytes:
    file = io.BytesIO()
    Image.fromarray(noise(200, 200)).save(file, "JPEG")
    return file.getvalue()


UNUSABLE = {
    "not an image": (b"patient,finding\n1,2\n", "is not an image"),
    "empty": (b"", "is not an image"),
    "truncated": (whole_jpeg()[:-700], "is damaged"),
    "damaged header": (whole_jpeg()[:20], "is not an image"),
    "bomb": (bomb(), "is too large"),
    "moderate bomb": (bomb(10_000, 10_000), "is too large"),
    "thin bomb": (bomb(1, 80_000_000), "is too large"),
    "program": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n", "is not an image"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("case", UNUSABLE)
def test_a_file_that_cannot_be_used_is_refused_by_name(tmp_path, case):
    content, reason = UNUSABLE[case]
    files = some_files(tmp_path, 3)
    files[1].write_bytes(content)
    with pytest.raises(UnusableImages, match=f"1 of 3 images .*1.png {reason}") as raised:
        read_images(files, Fit(8), cache=tmp_path / "cache")
    assert set(raised.value.reasons) == {1}


def test_an_image_that_resizing_would_blow_up_is_refused(tmp_path):
    thin = save(tmp_path / "thin.png", np.zeros((1, 60_000), np.uint8))
    with pytest.raises(CrossbiasError, match="is too large"):
        read_images([thin], Fit(224), cache=tmp_path / "cache")


def test_floating_point_pixels_are_refused():
    image = Image.fromarray(np.zeros((4, 4), np.float32))
    with pytest.raises(CrossbiasError, match="floating-point pixels; save it with 8 or 16 bits"):
        decoded(image, Fit(4), "TIFF")


def color_png(value: int, *, kind: int) -> bytes:
    """A PNG file of 4 x 4 pixels with 16 bits, which Pillow cannot write: 2 is RGB, 6 RGBA."""
    channels = {2: 3, 6: 4, 4: 2}[kind]
    rows = b"".join(b"\0" + np.full(4 * channels, value, ">u2").tobytes() for _ in range(4))

    def chunk(name: bytes, content: bytes) -> bytes:
        size, check = struct.pack(">I", len(content)), struct.pack(">I", zlib.crc32(name + content))
        return size + name + content + check

    header = struct.pack(">IIBBBBB", 4, 4, 16, kind, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize("kind", [2, 4, 6])
def test_color_images_of_16_bits_that_would_be_black_are_refused(kind):
    with pytest.raises(CrossbiasError, match=r"need 12 bits or fewer; .* save it with 8 bits"):
        decode(io.BytesIO(color_png(4095, kind=kind)), Fit(4))
    pixels = decode(io.BytesIO(color_png(0x8081, kind=2)), Fit(4))
    assert set(pixels) == {0x80}


def test_missing_files_are_all_named_up_to_ten(tmp_path):
    files = [tmp_path / f"{number:02}.png" for number in range(14)]
    with pytest.raises(
        UnusableImages, match=r"14 of 14 .*09.png is missing; and 4 more$"
    ) as raised:
        read_images(files, Fit(8), cache=tmp_path / "cache")
    places = [str(raised.value).index(file.name) for file in files[:10]]
    assert all(one < other for one, other in pairwise(places))
    assert not (tmp_path / "cache").exists()


def test_names_given_are_used_in_messages(tmp_path):
    with pytest.raises(UnusableImages, match=r"row 7 of labels.csv \(a.png\) is missing"):
        read_images(
            [tmp_path / "a.png"], Fit(8), names=["row 7 of labels.csv (a.png)"], cache=tmp_path
        )


@pytest.mark.parametrize("how", ["crop", "squash"])
def test_a_long_thin_image_is_refused_before_its_pixels_are_read(monkeypatch, how):
    loaded = []
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: loaded.append(image.size))
    with pytest.raises(CrossbiasError, match="is too large"):
        decode(io.BytesIO(bomb(1, 80_000_000)), Fit(64, how))
    with pytest.raises(CrossbiasError, match=r"too large \(the middle of 1 x 60000 pixels"):
        decode(io.BytesIO(bomb(1, 60_000)), Fit(224))
    assert loaded == []
