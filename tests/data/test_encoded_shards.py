"""The cache may keep image files instead of pixels; batches and hashes are the same."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import crossbias.data
from crossbias import BiasedDataset
from crossbias.data.images import cache_array, decoding
from crossbias.data.images.cache_check import check_cache
from crossbias.data.images.cache_entry import RECORD
from crossbias.data.images.decoding import Fit, file_items, read_items
from crossbias.data.images.stored_images import StoredImages
from crossbias.data.loader import Loader
from crossbias.errors import CrossbiasError

from .pictures import noise, save


@pytest.fixture
def files(tmp_path) -> list[Path]:
    """Images of several formats, sizes and kinds of pixels."""
    folder = tmp_path / "files"
    made = [save(folder / f"{n}.jpg", noise(50 + n, 40, seed=n)) for n in range(6)]
    made += [save(folder / f"{n}.png", noise(30, 35 + n, seed=n)) for n in range(6, 10)]
    gray = noise(20, 20, seed=10, channels=1)
    made.append(save(folder / "gray.png", gray))
    Image.fromarray(gray.squeeze().astype(np.uint16) << 8).save(folder / "wide.png")
    Image.fromarray(noise(20, 20, seed=11, channels=4)).save(folder / "clear.png")
    return [*made, folder / "wide.png", folder / "clear.png"]


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


def read(files: list[Path], store: str, cache: Path) -> tuple[torch.Tensor, str]:
    items = file_items(files, [str(file) for file in files])
    return read_items(items, Fit(8), store=store, cache=cache)


def stored(cache: Path) -> Path:
    """The file of the one shard of encoded images."""
    (found,) = cache.glob("*/*/encoded")
    return found


def rewrite(path: Path, content: bytes) -> None:
    """Change a file without a trace in its size and time."""
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


@pytest.mark.parametrize("size", [2**31, 3000, 100])
def test_pixels_and_digest_are_those_of_decoded_images(files, cache, size, monkeypatch):
    monkeypatch.setattr(cache_array, "SHARD_BYTES", size)
    pixels, digest = read(files, "pixels", cache)
    images, same = read(files, "bytes", cache)
    assert isinstance(images, StoredImages)
    assert torch.equal(images, pixels)
    assert same == digest
    sizes = [path.stat().st_size for path in cache.glob("*/*/encoded")]
    assert sum(sizes) == sum(file.stat().st_size for file in files)
    if size == 2**31:
        assert stored(cache).read_bytes() == b"".join(file.read_bytes() for file in files)
    if size == 3000:
        assert 1 < len(sizes) < len(files)
        assert max(sizes) <= 3000
    if size == 100:  # every image is larger
        assert len(sizes) == len(files)


@pytest.mark.parametrize(("workers", "resident"), [(0, 0), (1, 0), (0, 2**30)])
def test_batches_are_bit_for_bit_those_of_decoded_images(files, cache, workers, resident):
    cut = list(torch.randperm(len(files)).split(4))
    batches = {}
    for store in ("pixels", "bytes"):
        inputs, digest = read(files, store, cache)
        data = BiasedDataset(inputs=inputs, targets=torch.arange(len(files)) % 2, digest=digest)
        loader = Loader(data, torch.device("cpu"), resident_bytes=resident, workers=workers)
        batches[store] = [batch.inputs for batch in loader.batches(cut)]
        batches[store].append(loader.fetch(torch.tensor([3, 1])))
    for one, other in zip(batches["pixels"], batches["bytes"], strict=True):
        assert torch.equal(one, other)


def counted(monkeypatch) -> list[object]:
    seen: list[object] = []
    real = decoding.decode
    monkeypatch.setattr(decoding, "decode", lambda file, fit: seen.append(file) or real(file, fit))
    return seen


def test_images_that_fit_on_the_device_are_decoded_once(files, cache, monkeypatch):
    decoded = counted(monkeypatch)
    inputs, digest = read(files, "bytes", cache)
    data = BiasedDataset(inputs=inputs, targets=torch.zeros(len(files)).long(), digest=digest)
    decoded.clear()
    loader = Loader(data, torch.device("cpu"), resident_bytes=2**30, workers=0)
    for _ in range(2):
        list(loader.batches([torch.arange(len(files))]))
    assert len(decoded) == len(files)


def test_known_images_are_copied_and_not_decoded(files, cache, monkeypatch):
    whole, _ = read(files, "bytes", cache)
    decoded = counted(monkeypatch)
    part, _ = read([files[7], files[2]], "bytes", cache)
    assert len(decoded) == 2  # by the digest, which reads back what was stored
    assert torch.equal(part, whole[[7, 2]])


def test_a_damaged_shard_is_repaired_at_the_next_start(files, cache):
    expected, digest = read(files, "bytes", cache)
    expected = expected.clone()
    before = stored(cache).read_bytes()
    stored(cache).write_bytes(flipped(before, 700))
    again, same = read(files, "bytes", cache)
    assert (same, stored(cache).read_bytes()) == (digest, before)
    assert torch.equal(again, expected)


def test_a_damage_that_nobody_noticed_stops_the_reading(files, cache):
    images, _ = read(files, "bytes", cache)
    rewrite(stored(cache), flipped(stored(cache).read_bytes(), 700))
    with pytest.raises(
        CrossbiasError, match=r"cannot read the cache .*image 0 .*delete this"
    ) as bad:
        images[0]
    assert "\n" not in str(bad.value)
    (shard,) = check_cache(cache)
    assert shard.problem == "its images are not those that were stored"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_worker_process_says_it_in_one_line(files, cache, workers):
    inputs, digest = read(files, "bytes", cache)
    rewrite(stored(cache), flipped(stored(cache).read_bytes(), 700))
    data = BiasedDataset(inputs=inputs, targets=torch.zeros(len(files)).long(), digest=digest)
    loader = Loader(data, torch.device("cpu"), resident_bytes=0, workers=workers)
    with pytest.raises(CrossbiasError, match=r"^cannot read the cache .*image 0 ") as bad:
        list(loader.batches([torch.arange(4)]))
    assert "\n" not in str(bad.value)


def test_an_image_that_now_decodes_to_other_pixels_is_refused(files, cache):
    """As with another version of the library that decodes."""
    images, _ = read(files, "bytes", cache)
    rows = stored(cache).with_name("rows")
    rewrite(rows, flipped(rows.read_bytes(), 96 * 5 + 70))  # of the pixels of image 5
    images, _ = read(files, "bytes", cache)
    assert images[4].shape == (3, 8, 8)
    with pytest.raises(CrossbiasError, match=r"image 5 has other pixels than when it was stored"):
        images[5]


@pytest.mark.parametrize("name", ["encoded", "sizes"])
def test_a_file_that_is_gone_is_named_and_made_again(files, cache, name):
    images, _ = read(files, "bytes", cache)
    stored(cache).with_name(name).unlink()
    with pytest.raises(CrossbiasError, match=r"cannot read the cache .*No such file"):
        images[0]
    assert torch.equal(read(files, "bytes", cache)[0], read(files, "pixels", cache)[0])


def test_unusable_images_are_named_before_anything_is_trained(files, cache):
    files[2].write_bytes(b"nothing")
    with pytest.raises(CrossbiasError, match=r"1 of 13 images .*2.jpg is not an image"):
        read(files, "bytes", cache)


def test_a_file_that_changes_while_it_is_read_is_named(files, cache):
    items = file_items(files, [str(file) for file in files])
    save(files[3], noise(90, 90, seed=5))
    with pytest.raises(CrossbiasError, match=r"3.jpg changed while it was read"):
        read_items(items, Fit(8), store="bytes", cache=cache)


def test_the_check_knows_sound_shards(files, cache):
    read(files, "bytes", cache)
    ((_, size, problem),) = check_cache(cache)
    assert (size, problem) == (sum(file.stat().st_size for file in files), "")
    stored(cache).write_bytes(b"short")
    ((_, _, problem),) = check_cache(cache)
    assert problem == "its images do not have the recorded sizes"


def test_own_images_take_it_as_an_option(tmp_path):
    for number in range(12):
        name = f"{'cat' if number % 2 else 'dog'}/{number}.jpg"
        save(tmp_path / "pets" / name, noise(seed=number))
    name, split = f"folder:{tmp_path / 'pets'}", {"size": 8}
    pixels, encoded = (
        crossbias.data.load(name, "train", store=store, **split) for store in ("pixels", "bytes")
    )
    assert isinstance(encoded.inputs, StoredImages)
    assert encoded.hash == pixels.hash
    assert encoded.origin["store"] == "bytes"
    with pytest.raises(CrossbiasError, match=r"store.*pixels"):
        crossbias.data.load(name, "train", store="jpeg", **split)


@pytest.mark.parametrize("kept", [95, 64, 40, 3])
@pytest.mark.parametrize("store", ["pixels", "bytes"])
def test_a_record_that_a_full_disk_cut_off_is_written_again(files, cache, store, kept):
    """Its image is whole, so that the image alone does not show what is missing."""
    digest = read(files, store, cache)[1]
    (rows,) = cache.glob("*/*/rows")
    content = rows.read_bytes()
    rows.write_bytes(content[:kept] + bytes(RECORD.itemsize - kept) + content[RECORD.itemsize :])
    for index in cache.glob("*/*/*.json"):
        index.unlink()
    assert read(files, store, cache)[1] == digest
    assert rows.read_bytes() == content
