"""The cache: nothing is decoded twice, nothing half-written or damaged is used."""

import hashlib
import os
import shutil
import signal
import stat
import sys
import time
from pathlib import Path

import pytest
import torch

import crossbias.data.images.decoding
from crossbias.data.images import known_rows
from crossbias.data.images.decoding import Fit, read_images
from crossbias.data.images.private_folder import why_not_private
from crossbias.data.memory_maps import cache_folder
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress

from .pictures import noise, save, some_files


class Heard(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[int, int]] = []

    def prepare(self, what: str, done: int, total: int) -> None:
        """Keep it."""
        self.steps.append((done, total))

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)


@pytest.fixture
def decodings(monkeypatch) -> list[object]:
    """One entry for every image that is decoded."""
    seen: list[object] = []
    real = crossbias.data.images.decoding.decode

    def counted(file, fit):
        seen.append(file)
        return real(file, fit)

    monkeypatch.setattr(crossbias.data.images.decoding, "decode", counted)
    return seen


@pytest.fixture
def files(tmp_path) -> list[Path]:
    return some_files(tmp_path / "files")


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


def entry(cache: Path) -> Path:
    """The folder of the one array in the cache."""
    (found,) = cache.glob("*/*")
    return found


def test_a_second_reading_decodes_nothing_and_gives_the_same(files, cache, decodings):
    first, digest = read_images(files, Fit(8), cache=cache)
    again, same = read_images(files, Fit(8), cache=cache)
    assert len(decodings) == len(files)
    assert torch.equal(first, again)
    assert digest == same


def test_files_are_not_even_opened_again(files, cache):
    first, _ = read_images(files, Fit(8), cache=cache)
    for file in files:
        status = file.stat()
        file.write_bytes(bytes(status.st_size))  # same size and time: it counts as unchanged
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert torch.equal(read_images(files, Fit(8), cache=cache)[0], first)


def test_a_changed_file_is_decoded_again_and_the_others_are_not(files, cache, decodings):
    before, digest = read_images(files, Fit(8), cache=cache)
    save(files[2], noise(50, 50, seed=99))
    after, other = read_images(files, Fit(8), cache=cache)
    assert len(decodings) == len(files) + 1
    assert (before != after).flatten(1).any(1).tolist() == [False, False, True, False, False]
    assert digest != other


def test_other_splits_of_the_same_files_copy_their_pixels(files, cache, decodings):
    whole, _ = read_images(files, Fit(8), cache=cache)
    part, _ = read_images([files[3], files[1]], Fit(8), cache=cache)
    assert torch.equal(part, whole[[3, 1]])
    assert len(decodings) == len(files)


def test_a_further_split_reads_few_records_however_many_there_are(files, cache, monkeypatch):
    """Before, each new seed read the records of all arrays: twice as many after twice the seeds."""
    read, counts = [], []
    real = known_rows.read_records
    monkeypatch.setattr(
        known_rows, "read_records", lambda folder: read.append(folder) or real(folder)
    )
    for first in range(5):  # the same files in another order each time
        read.clear()
        read_images([*files[first:], *files[:first]], Fit(8), cache=cache)
        counts.append(len(read))
    assert counts[1:] == counts[1:2] * 4


def test_a_search_for_one_of_many_copies_looks_at_one(tmp_path, cache, monkeypatch):
    """Before, each search listed all copies: a split of n copies took time with n squared."""
    content = save(tmp_path / "one.png", noise()).read_bytes()
    copies = [tmp_path / f"{number}.png" for number in range(50)]
    for copy in copies:
        copy.write_bytes(content)
    read_images(copies, Fit(8), cache=cache)
    looked: list[object] = []

    class Counted(list):
        def __getitem__(self, at):
            looked.append(at)
            return super().__getitem__(at)

    known = known_rows.KnownRows(entry(cache).parent, 3 * 8 * 8)
    monkeypatch.setattr(known, "_read", Counted())
    found = known.find(hashlib.sha256(content).digest())
    assert found is not None
    assert len(looked) == 1
    assert known._heads.dtype.isnative  # else numpy copies all of them for each search


def test_files_that_moved_or_were_touched_are_known_by_content(files, cache, decodings, tmp_path):
    before, digest = read_images(files, Fit(8), cache=cache)
    moved = [Path(shutil.copy(file, tmp_path / f"moved-{file.name}")) for file in files]
    os.utime(files[0])
    for paths in (moved, files):
        assert read_images(paths, Fit(8), cache=cache)[1] == digest
    assert len(decodings) == len(files)
    assert torch.equal(read_images(moved, Fit(8), cache=cache)[0], before)


def test_another_fit_has_its_own_array(files, cache):
    shapes = [
        tuple(read_images(files, fit, cache=cache)[0].shape)
        for fit in (Fit(8), Fit(8, "squash"), Fit(8, channels=1), Fit(10))
    ]
    assert shapes == [(5, 3, 8, 8), (5, 3, 8, 8), (5, 1, 8, 8), (5, 3, 10, 10)]
    assert len(list(cache.glob("*/*/index.json"))) == 4


def test_good_rows_are_kept_when_some_files_are_bad(files, cache, decodings):
    good = files[4].read_bytes()
    files[4].write_bytes(b"nothing")
    with pytest.raises(CrossbiasError, match="is not an image"):
        read_images(files, Fit(8), cache=cache)
    files[4].write_bytes(good)
    read_images(files, Fit(8), cache=cache)
    assert len(decodings) == len(files) + 1


@pytest.mark.parametrize("damage", ["byte", "truncated", "no pixels", "no rows", "index", "list"])
def test_a_damaged_array_is_noticed_and_repaired(files, cache, decodings, damage):
    expected = read_images(files, Fit(8), cache=cache)[0].clone()
    folder = entry(cache)
    pixels = bytearray((folder / "pixels").read_bytes())
    if damage == "byte":
        pixels[3 * 8 * 8 * 2] ^= 1
        (folder / "pixels").write_bytes(pixels)
    elif damage == "truncated":
        (folder / "pixels").write_bytes(pixels[:500])
    elif damage.startswith("no "):
        (folder / damage.removeprefix("no ")).unlink()
        (folder / "index.json").unlink()
    else:
        (folder / "index.json").write_text('{"format"' if damage == "index" else "[]")
    assert torch.equal(read_images(files, Fit(8), cache=cache)[0], expected)
    again = {"byte": 1, "truncated": 3, "no pixels": 5, "no rows": 5, "index": 0, "list": 0}
    assert len(decodings) == len(files) + again[damage]


def test_progress_is_told_and_the_size_is_said_before(files, cache):
    heard = Heard()
    read_images(files, Fit(8), cache=cache, progress=heard)
    assert heard.notes == [f"cache {entry(cache)}: 5 of 5 images to decode; 0.00 GB in all"]
    assert heard.steps == [(5, 5)]


def test_a_disk_without_room_is_refused_before_anything_is_written(files, cache, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=64 * 2**20 + 959))
    with pytest.raises(CrossbiasError, match=r"5 images need 0.0 GB, .* CROSSBIAS_CACHE"):
        read_images(files, Fit(8), cache=cache)
    assert not (entry(cache) / "pixels").exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=64 * 2**20 + 960))
    read_images(files, Fit(8), cache=cache)


def test_a_cache_that_cannot_be_written_is_named(files, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(CrossbiasError, match=r"cannot write the cache .*taken.*CROSSBIAS_CACHE"):
        read_images(files, Fit(8), cache=tmp_path / "taken")


def test_no_images_are_refused(cache):
    with pytest.raises(CrossbiasError, match="no images to read"):
        read_images([], Fit(8), cache=cache)


def test_the_folder_is_given_or_named_or_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("CROSSBIAS_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "crossbias"
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "named"))
    assert cache_folder() == tmp_path / "named"
    assert cache_folder(tmp_path / "given") == tmp_path / "given"


PROGRAM = """
import sys, time
from pathlib import Path
import crossbias.data.images.decoding as images

real = images.decode
def slow(file, fit):
    time.sleep(float(sys.argv[3]))
    with open(sys.argv[4], "a") as log:
        log.write("x")
    return real(file, fit)
images.decode = slow
files = sorted(Path(sys.argv[1]).iterdir())
print(images.read_images(files, images.Fit(8), cache=Path(sys.argv[2]))[1])
"""


def arguments(folder: Path, cache: Path, pause: float) -> list[str]:
    return ["-c", str(folder / "files"), str(cache), str(pause), str(folder / "log")]


def test_a_killed_building_goes_on_where_it_was(program, tmp_path, cache, decodings):
    files = some_files(tmp_path / "files", 200)
    process = program(PROGRAM, arguments(tmp_path, cache, 0.02))
    written = []
    while not written:
        time.sleep(0.02)
        written = [path for path in cache.glob("*/*/rows") if any(path.read_bytes())]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    images, _ = read_images(sorted(files), Fit(8), cache=cache)
    assert 0 < len(decodings) < 200
    expected, _ = read_images(sorted(files), Fit(8), cache=tmp_path / "fresh")
    assert torch.equal(images, expected)


def test_two_processes_at_once_decode_every_file_once(program, tmp_path, cache):
    some_files(tmp_path / "files", 30)
    processes = [program(PROGRAM, arguments(tmp_path, cache, 0.05)) for _ in range(2)]
    first, second = (process.communicate()[0] for process in processes)
    assert first == second != ""
    assert len((tmp_path / "log").read_text()) == 30


def test_the_folders_of_the_cache_are_private(files, cache):
    read_images(files, Fit(8), cache=cache)
    for folder in (entry(cache).parent, entry(cache)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("depth", [0, 1])
def test_links_in_a_shared_cache_are_not_followed(files, cache, tmp_path, depth):
    read_images(files, Fit(8), cache=cache)
    path = (entry(cache).parent, entry(cache))[depth]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CrossbiasError, match=r"is a link; .*CROSSBIAS_CACHE"):
        read_images(files, Fit(8), cache=cache)


def test_a_cache_that_others_can_write_to_is_not_used(files, cache):
    read_images(files, Fit(8), cache=cache)
    entry(cache).chmod(0o770)
    with pytest.raises(CrossbiasError, match=r"others can write to it; .*CROSSBIAS_CACHE"):
        read_images(files, Fit(8), cache=cache)


def test_a_folder_of_another_user_is_not_private_but_one_of_the_administrator_is():
    def made_by(user: int, mode: int = stat.S_IFDIR | 0o755) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 1, user, 0, 0, 0, 0, 0))

    assert why_not_private(made_by(1000), 1000) is None
    assert why_not_private(made_by(0), 1000) is None
    assert why_not_private(made_by(1001), 1000) == "it belongs to another user"
    assert why_not_private(made_by(1001), 0) == "it belongs to another user"
    assert why_not_private(made_by(1000, stat.S_IFDIR | 0o757), 1000) == "others can write to it"
    assert why_not_private(made_by(1000, stat.S_IFLNK | 0o777), None) == "it is a link"
    assert why_not_private(made_by(1001), None) is None
