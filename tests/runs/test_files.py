import errno
import json
import os
import struct
import sys
import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from crossbias.errors import CrossbiasError
from crossbias.runs import files
from crossbias.runs.files import load_arrays, read_json, write_atomically, write_json


def write_old(path: Path) -> None:
    write_atomically(path, lambda file: file.write(b"old"))


def test_write_replaces_the_whole_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "result"
    write_atomically(path, lambda file: file.write(b"a longer first content"))
    write_old(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "result"
    write_old(path)

    def write(file: BinaryIO) -> None:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"

    write_atomically(path, write)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("raised", [ZeroDivisionError, KeyboardInterrupt])
def test_a_writer_that_fails_midway_leaves_the_old_file(
    tmp_path: Path, raised: type[BaseException]
) -> None:
    path = tmp_path / "result"
    write_old(path)

    def write(file: BinaryIO) -> None:
        file.write(b"half of the n")
        raise raised

    with pytest.raises(raised):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def fail_with_full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", ["write", "fsync", "replace"])
def test_a_full_disk_is_named_wherever_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    path = tmp_path / "result"
    write_old(path)
    if place != "write":
        monkeypatch.setattr(os, place, fail_with_full_disk)
    with pytest.raises(CrossbiasError) as caught:
        write_atomically(path, fail_with_full_disk if place == "write" else lambda file: None)
    assert str(caught.value) == (
        f"cannot write {path}: No space left on device; "
        "the earlier file, if there was one, is unchanged"
    )
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


REFUSED_TO_GROW = """
import resource, sys
from pathlib import Path
import numpy, torch
from crossbias.errors import CrossbiasError
from crossbias.runs.files import write_atomically

writers = {
    "plain": lambda file: file.write(bytes(100_000)),
    "numpy": lambda file: numpy.savez(file, a=numpy.zeros(100_000)),
    "torch": lambda file: torch.save(torch.zeros(100_000), file),
}
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for name, write in writers.items():
    try:
        write_atomically(Path(sys.argv[1], name), write)
    except CrossbiasError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file size limit to set")
def test_a_file_the_system_refuses_to_grow_is_a_clear_error(program, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("plain", "numpy", "torch")]
    for path in paths:
        write_old(path)
    printed = program.run(REFUSED_TO_GROW, ["-c", str(tmp_path)]).stdout
    for path, message in zip(paths, printed.splitlines(), strict=True):
        assert message.startswith(f"cannot write {path}: File too large")
        assert path.read_bytes() == b"old"
    assert set(tmp_path.iterdir()) == set(paths)


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CrossbiasError, match="No such file or directory"):
        write_old(tmp_path / "nowhere" / "result")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")
def test_files_get_the_permissions_of_any_other_new_file(tmp_path: Path) -> None:
    write_old(tmp_path / "result")
    (tmp_path / "plain").touch()
    assert (tmp_path / "result").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_longest_possible_name_can_be_written(tmp_path: Path) -> None:
    write_old(tmp_path / ("n" * 255))
    assert (tmp_path / ("n" * 255)).read_bytes() == b"old"


def test_json_keeps_order_and_any_name(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    value = {"z": [1, 2.5, None], "a": {"naïve 漢字 \udcff </script>": True}}
    write_json(path, value)
    assert read_json(path) == value
    assert list(json.loads(path.read_text())) == ["z", "a"]
    assert path.read_text().endswith("}\n")


def test_json_refuses_nan_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}


def test_reading_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(CrossbiasError, match=r"value\.json does not exist"):
        read_json(tmp_path / "value.json")


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe", b"[" * 100_000])
def test_reading_a_damaged_file_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(CrossbiasError, match=r"value\.json is damaged"):
        read_json(path)


def test_reading_a_folder_names_it(tmp_path: Path) -> None:
    with pytest.raises(CrossbiasError, match="cannot read"):
        read_json(tmp_path)


def archive(path: Path, *, shape: str, content: bytes) -> Path:
    """An archive of one array whose header declares a shape."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("labels.npy", header + content)
    return path


@pytest.mark.parametrize("shape", ["(10000000000000,)", "(3,)", "(-1,)"])
def test_arrays_of_absurd_shape_are_refused_before_memory_is_used(tmp_path, monkeypatch, shape):
    path = archive(tmp_path / "a.npz", shape=shape, content=bytes(16))
    monkeypatch.setattr(np.lib.format, "read_array", None)  # what would take the memory
    with pytest.raises(CrossbiasError, match=r"a\.npz is damaged: .* has 16 bytes, but the shape"):
        load_arrays(path, dict)


def test_archives_that_unpack_to_far_more_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_UNPACKED", 1000)
    path = archive(tmp_path / "a.npz", shape="(2000000,)", content=bytes(8_000_000))
    with pytest.raises(CrossbiasError, match="would unpack to 8,000,1"):
        load_arrays(path, dict)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_no_json(tmp_path, number):
    path = tmp_path / "config.json"
    path.write_text(f'{{"a": [0.5, {number}]}}')
    with pytest.raises(CrossbiasError, match=rf"does not hold JSON \({number} is no number\)"):
        read_json(path)
