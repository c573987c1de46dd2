"""Large arrays are in shards, which several processes build and which are read at random."""

import io
import os
import pickle
import signal
import stat
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossbias import BiasedDataset
from crossbias.data.images import cache_array, cache_entry, decoding, stored_images
from crossbias.data.images.cache_check import check_cache
from crossbias.data.images.cache_entry import RECORD
from crossbias.data.images.decoding import Fit, file_items, read_images, read_items
from crossbias.data.images.stored_images import PixelShard, StoredImages, as_clips
from crossbias.data.loader import Loader
from crossbias.errors import CrossbiasError

from .pictures import noise, save, some_files

ROW = 3 * 8 * 8  # bytes of an image at 8 pixels


@pytest.fixture
def files(tmp_path) -> list[Path]:
    return some_files(tmp_path / "files", 11)


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def four_images_in_a_shard(monkeypatch) -> None:
    monkeypatch.setattr(cache_array, "SHARD_BYTES", 4 * ROW + 1)


def read_stored(files: list[Path], store: str, cache: Path) -> tuple[Tensor, str]:
    items = file_items(files, [file.name for file in files])
    return read_items(items, Fit(8), store=store, cache=cache)


def shards(cache: Path) -> list[Path]:
    """The folders of all shards."""
    return sorted(path.parent for path in cache.glob("*/*/rows"))


def content(cache: Path) -> dict[str, bytes]:
    """What a finished cache has in it, whoever wrote it and when."""
    kept = ("pixels", "encoded", "sizes", "rows", "array.json")
    return {str(path.relative_to(cache)): path.read_bytes()
            for path in cache.glob("*/*/*") if path.name in kept}  # fmt: skip


def test_shards_have_the_pixels_of_one_array(files, cache, tmp_path, monkeypatch):
    found, digest = read_images(files, Fit(8), cache=cache)
    assert len(shards(cache)) == 3
    assert max(path.stat().st_size for path in cache.glob("*/*/pixels")) == 4 * ROW
    monkeypatch.setattr(cache_array, "SHARD_BYTES", 2 * ROW)
    smaller, same = read_images(files, Fit(8), cache=tmp_path / "smaller")
    assert same == digest  # however large the shards are
    monkeypatch.setattr(cache_array, "SHARD_BYTES", 2**31)
    whole, _ = read_images(files, Fit(8), cache=tmp_path / "whole")
    assert not isinstance(whole, StoredImages)
    assert torch.equal(found, whole)
    assert torch.equal(smaller, whole)


def test_a_second_reading_opens_no_image_and_no_shard(files, cache, monkeypatch):
    _, digest = read_images(files, Fit(8), cache=cache)
    for file in files:
        status = file.stat()
        file.write_bytes(bytes(status.st_size))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    opened = opened_shards(monkeypatch)
    again, same = read_images(files, Fit(8), cache=cache)
    assert (same, opened) == (digest, [])
    assert again[5].shape == (3, 8, 8)
    assert len(opened) == 1


def opened_shards(monkeypatch) -> list[Path]:
    """One entry for every time that a shard is opened."""
    seen: list[Path] = []
    real = PixelShard.opened
    monkeypatch.setattr(PixelShard, "opened", lambda self: seen.append(self.path) or real(self))
    return seen


def test_few_shards_are_open_at_once(files, cache, monkeypatch):
    images, _ = read_images(files, Fit(8), cache=cache)
    whole = images.clone()
    monkeypatch.setattr(stored_images, "MOST_OPEN", 2)
    images, _ = read_images(files, Fit(8), cache=cache)
    opened = opened_shards(monkeypatch)
    for row in (0, 4, 1, 5, 8, 0):  # shards 0, 1, 0, 1, 2, and 0 again
        assert torch.equal(images[row], whole[row])
    assert len(opened) == 4


@pytest.mark.parametrize("damage", ["byte", "pixels", "rows", "index.json", "array.json"])
def test_a_damaged_or_deleted_shard_is_repaired_alone(files, cache, damage, monkeypatch):
    images, digest = read_images(files, Fit(8), cache=cache)
    expected, before = images.clone(), content(cache)
    path = shards(cache)[1] if damage != "array.json" else next(cache.glob("*/*/array.json")).parent
    if damage == "byte":
        pixels = bytearray((path / "pixels").read_bytes())
        pixels[0] ^= 1
        (path / "pixels").write_bytes(pixels)
    else:
        (path / damage).unlink()
    decoded = decodings(monkeypatch)
    again, same = read_images(files, Fit(8), cache=cache)
    assert torch.equal(again, expected)
    assert (same, content(cache)) == (digest, before)
    lost = (
        len(before[f"{path.relative_to(cache)}/rows"]) // RECORD.itemsize
        if damage in ("pixels", "rows")
        else 0
    )
    assert len(decoded) == (1 if damage == "byte" else lost)


def decodings(monkeypatch) -> list[object]:
    """One entry for every image that is decoded."""
    seen: list[object] = []
    real = decoding.decode
    monkeypatch.setattr(decoding, "decode", lambda file, fit: seen.append(file) or real(file, fit))
    return seen


def test_a_changed_file_makes_the_shard_of_its_rows_anew(files, cache, monkeypatch):
    read_images(files, Fit(8), cache=cache)
    save(files[5], noise(50, 50, seed=99))
    decoded = decodings(monkeypatch)
    read_images(files, Fit(8), cache=cache)
    assert len(decoded) == 1
    assert len(shards(cache)) == 4  # the other two are shared


def test_all_unusable_images_of_all_shards_are_named_at_once(files, cache, monkeypatch):
    for number in (1, 9):
        files[number].write_bytes(b"nothing")
    with pytest.raises(CrossbiasError, match=r"2 of 11 images .*1\.png is not.*9\.png is not"):
        read_images(files, Fit(8), cache=cache)
    for number in (1, 9):
        save(files[number], noise(seed=number))
    decoded = decodings(monkeypatch)
    read_images(files, Fit(8), cache=cache)
    assert len(decoded) == 2


def test_every_folder_is_private_and_no_link_is_followed(files, cache, tmp_path):
    read_images(files, Fit(8), cache=cache)
    folders = sorted(cache.glob("*/*"))
    assert len(folders) == 4  # three shards, and what is known of the array
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    for path in folders:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(CrossbiasError, match=r"is a link; .*CROSSBIAS_CACHE"):
            read_images(files, Fit(8), cache=cache)
        path.unlink()
        (tmp_path / "elsewhere").rename(path)
    folders[0].chmod(0o770)
    with pytest.raises(CrossbiasError, match=r"others can write to it"):
        read_images(files, Fit(8), cache=cache)


def test_the_check_names_the_shard_with_other_pixels(files, cache):
    read_images(files, Fit(8), cache=cache)
    assert [each.problem for each in check_cache(cache)] == ["", "", ""]
    path = shards(cache)[1] / "pixels"
    pixels = bytearray(path.read_bytes())
    pixels[7] ^= 1
    path.write_bytes(pixels)
    problems = {each.folder: each.problem for each in check_cache(cache) if each.problem}
    assert problems == {path.parent: "its pixels are not those that were decoded"}


def test_what_is_written_is_read_back(files, cache, monkeypatch):
    """A disk that keeps something else than it was given is noticed before the shard is used."""
    real = cache_entry._write_at

    def lying(file, place, content):
        real(file, place, content[:-1] + b"?" if len(content) == ROW else content)

    monkeypatch.setattr(cache_entry, "_write_at", lying)
    with pytest.raises(CrossbiasError, match="does not hold what was written to it"):
        read_images(files, Fit(8), cache=cache)
    monkeypatch.setattr(cache_entry, "_write_at", real)
    read_images(files, Fit(8), cache=cache)
    assert [each.problem for each in check_cache(cache)] == ["", "", ""]


class SmallDisk(io.FileIO):
    """A file on a disk that takes part of a row and then nothing more."""

    left = 5 * ROW + 500

    def write(self, content) -> int:
        """Take what fits."""
        if not SmallDisk.left:
            raise OSError(28, "No space left on device")
        taken = super().write(memoryview(content)[: SmallDisk.left])
        SmallDisk.left -= taken
        return taken


def test_a_disk_that_fills_is_one_line_and_loses_nothing(files, cache, monkeypatch, tmp_path):
    def opened(path, mode, *unbuffered):
        return SmallDisk(path, "r+") if unbuffered else Path(path).open(mode)

    monkeypatch.setattr(cache_entry, "open", opened, raising=False)
    with pytest.raises(CrossbiasError, match=r"No space left.*decoded so far are kept.*") as full:
        read_images(files, Fit(8), cache=cache)
    assert "\n" not in str(full.value)
    monkeypatch.delattr(cache_entry, "open")
    decoded = decodings(monkeypatch)
    read_images(files, Fit(8), cache=cache)
    assert 0 < len(decoded) < len(files)
    read_images(files, Fit(8), cache=tmp_path / "fresh")
    assert content(cache) == content(tmp_path / "fresh")


def test_a_shard_that_is_gone_is_named(files, cache):
    images, _ = read_images(files, Fit(8), cache=cache)
    (path,) = (each / "pixels" for each in shards(cache)[:1])
    path.write_bytes(b"short")
    with pytest.raises(CrossbiasError, match=r"cannot read .*pixels of the cache.* start again"):
        images.clone()


BUILDER = """
import os, sys, time
from pathlib import Path
import crossbias.data.images.decoding as images
from crossbias.data.images import cache_array

cache_array.SHARD_BYTES = 10 * 192
os.fsync = lambda descriptor: None  # a process is killed here, and not the machine
real = images.decode
def slow(file, fit):
    time.sleep(float(sys.argv[3]))
    with open(sys.argv[4], "a") as log:
        log.write(f"{os.getpid()} ")
    return real(file, fit)
images.decode = slow
files = sorted(Path(sys.argv[1]).iterdir())
items = images.file_items(files, [file.name for file in files])
cache, store = Path(sys.argv[2]), sys.argv[5]
print(images.read_items(items, images.Fit(8), store=store, cache=cache)[1])
"""


def builder(program, folder: Path, cache: Path, store: str):
    arguments = [folder / "files", cache, 0.01, folder / "log", store]
    return program(BUILDER, ["-c", *map(str, arguments)])


@pytest.mark.parametrize("store", ["pixels", "bytes"])
def test_two_builders_share_the_work_and_give_the_bytes_of_one(
    program, tmp_path, monkeypatch, store
):
    files = sorted(some_files(tmp_path / "files", 80))
    both = [builder(program, tmp_path, tmp_path / "both", store) for _ in range(2)]
    printed = [process.communicate() for process in both]
    assert printed[0] == printed[1]
    decoded = Counter((tmp_path / "log").read_text().split())
    assert sum(decoded.values()) == 80  # each image once
    assert len(decoded) == 2  # both had a part
    monkeypatch.setattr(cache_array, "SHARD_BYTES", 10 * ROW)
    _, digest = read_stored(files, store, tmp_path / "one")
    assert printed[0][0] == f"{digest}\n"
    assert content(tmp_path / "both") == content(tmp_path / "one")
    assert len(shards(tmp_path / "one")) >= 8


@pytest.mark.parametrize("store", ["pixels", "bytes"])
def test_a_killed_builder_leaves_its_shard_to_the_other(
    program, tmp_path, cache, monkeypatch, store
):
    files = sorted(some_files(tmp_path / "files", 80))
    victim = builder(program, tmp_path, cache, store)
    while not any(any(path.read_bytes()) for path in cache.glob("*/*/rows")):
        time.sleep(0.01)
    other = builder(program, tmp_path, cache, store)
    time.sleep(0.1)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    out, err = other.communicate()
    assert (other.returncode, err) == (0, "")
    monkeypatch.setattr(cache_array, "SHARD_BYTES", 10 * ROW)
    _, digest = read_stored(files, store, tmp_path / "one")
    assert out == f"{digest}\n"
    assert content(cache) == content(tmp_path / "one")


KILLED_EVERYWHERE = """
import os, sys
from pathlib import Path
import crossbias.data.images.decoding as images
from crossbias.data.images import cache_array, cache_entry

cache_array.SHARD_BYTES = 2 * 192
files, home = sorted(Path(sys.argv[1]).iterdir())[:3], Path(sys.argv[2])
os.fsync = lambda descriptor: None  # a process is killed here, and not the machine

items = images.file_items(files, [file.name for file in files])

def build(cache):
    return images.read_items(items, images.Fit(8), store=sys.argv[3], cache=cache)[1]

def ends_at(number):
    count = 0
    def counted(real):
        def act(*arguments, **options):
            nonlocal count
            count += 1
            if count == number:
                os._exit(9)
            return real(*arguments, **options)
        return act
    for place, name in ((os, "truncate"), (os, "fsync"), (os, "replace"), (os, "mkdir"),
                        (cache_entry, "_write_at"), (images, "decode")):
        setattr(place, name, counted(getattr(place, name)))

number, status = 0, 9
while status == 9:
    number += 1
    child = os.fork()
    if not child:
        ends_at(number)
        build(home / str(number))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(build(home / str(number)))
"""


@pytest.mark.parametrize("store", ["pixels", "bytes"])
def test_a_builder_killed_at_any_stage_is_finished_by_the_next(program, tmp_path, files, store):
    arguments = ["-c", str(tmp_path / "files"), str(tmp_path / "home"), store]
    found = program.run(KILLED_EVERYWHERE, arguments)
    assert (found.returncode, found.stderr) == (0, "")
    digests = found.stdout.split()
    assert len(digests) > 25
    assert len(set(digests)) == 1
    contents = [content(path) for path in (tmp_path / "home").iterdir()]
    assert all(each == contents[0] for each in contents)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> tuple[StoredImages, Tensor]:
    """Images in three shards, and the same in memory."""
    folder = tmp_path_factory.mktemp("stored")
    whole = torch.randint(0, 256, (12, 3, 4, 5), dtype=torch.uint8)
    parts = []
    for number, part in enumerate(whole.split([5, 1, 6])):
        part.numpy().tofile(folder / str(number))
        parts.append(PixelShard(folder / str(number), tuple(part.shape)))
    return StoredImages(parts, (3, 4, 5)), whole


@settings(max_examples=50)
@given(
    rows=st.one_of(
        st.integers(-12, 11),
        st.slices(12).filter(lambda rows: rows.step is None or rows.step > 0),
        st.lists(st.integers(-12, 11), max_size=20).map(lambda rows: torch.tensor(rows).long()),
        st.lists(st.booleans(), min_size=12, max_size=12).map(torch.tensor),
    )
)
def test_rows_are_those_of_a_tensor(stored, rows):
    images, whole = stored
    assert torch.equal(images[rows], whole[rows])
    assert type(images[rows]) is Tensor


def test_it_is_a_tensor_in_every_other_way(stored):
    images, whole = stored
    assert (images.shape, images.dtype, images.nbytes) == (whole.shape, whole.dtype, whole.nbytes)
    assert torch.equal(images.float().mean((0, 2)), whole.float().mean((0, 2)))
    assert torch.equal(images[2:4, 0], whole[2:4, 0])
    assert torch.equal(torch.stack(list(images)), whole)
    assert torch.equal(pickle.loads(pickle.dumps(images)), whole)
    assert repr(images) == "StoredImages((12, 3, 4, 5), 3 shards, uint8)"
    clips = as_clips(images, 4)
    assert isinstance(clips, StoredImages)
    assert torch.equal(clips, as_clips(whole, 4))
    assert torch.equal(clips[torch.tensor([2, 0])], as_clips(whole, 4)[[2, 0]])
    for rows in (12, torch.tensor([0, 12]), torch.tensor([-13]), torch.ones(3) > 0):
        with pytest.raises(IndexError):
            images[rows]


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_those_of_one_array(files, cache, tmp_path, monkeypatch, workers):
    cut = list(torch.randperm(len(files)).split(4))
    batches = {}
    for name, size in (("shards", 4 * ROW), ("whole", 2**31)):
        monkeypatch.setattr(cache_array, "SHARD_BYTES", size)
        inputs, digest = read_images(files, Fit(8), cache=tmp_path / name)
        targets = torch.arange(len(files)) % 2
        data = BiasedDataset(inputs=inputs, targets=targets, digest=digest)
        assert torch.equal(data.subset(targets == 0).inputs, inputs[targets == 0])
        loader = Loader(data, torch.device("cpu"), resident_bytes=0, workers=workers)
        batches[name] = [batch.inputs for batch in loader.batches(cut)]
    for one, other in zip(batches["shards"], batches["whole"], strict=True):
        assert torch.equal(one, other)
