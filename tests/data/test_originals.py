"""The files of MNIST and Fashion-MNIST: found, verified, downloaded, or named in an error."""

import gzip
import hashlib
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from crossbias import load
from crossbias.data.generated import originals
from crossbias.data.generated.originals import load_original, read_idx
from crossbias.errors import CrossbiasError

IMAGES = "train-images-idx3-ubyte"


@pytest.fixture
def copied(small_originals: Path, tmp_path: Path) -> Path:
    """A copy of the small files, to be damaged."""
    return Path(shutil.copytree(small_originals, tmp_path / "root"))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses at which nothing answers."""
    from torchvision.datasets import MNIST

    monkeypatch.setattr(MNIST, "mirrors", ["http://127.0.0.1:9/", "http://127.0.0.1:9/other/"])


def test_images_and_labels_are_the_bytes_of_the_files(small_originals: Path) -> None:
    images, labels = load_original("mnist", "t10k", root=small_originals)
    folder = small_originals / "mnist"
    raw = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    assert images.shape == (200, 28, 28)
    assert images.numpy().tobytes() == raw[16:]
    assert labels.dtype == torch.int64
    raw = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
    assert labels.tolist() == list(raw[8:])


def test_unpacked_files_do_as_well(copied: Path) -> None:
    expected = load_original("mnist", "train", root=copied)
    for packed in (copied / "mnist").glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    found = load_original("mnist", "train", root=copied)
    assert torch.equal(found.images, expected.images)
    assert torch.equal(found.labels, expected.labels)


def test_the_given_root_wins_over_the_environment(
    copied: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("CROSSBIAS_DATA", str(tmp_path / "elsewhere"))
    assert len(load("biased-mnist", "test", root=copied)) == 200
    assert load("biased-mnist", "test", root=str(copied)).origin["root"] == str(copied)
    monkeypatch.setenv("CROSSBIAS_DATA", str(copied))
    data = load("biased-mnist", "test")
    assert len(data) == 200
    assert "root" not in data.origin


def test_without_a_root_the_message_says_how_to_name_one(monkeypatch) -> None:
    monkeypatch.delenv("CROSSBIAS_DATA", raising=False)
    with pytest.raises(CrossbiasError, match=r"pass root= .*CROSSBIAS_DATA.*t10k-images-idx3"):
        load("biased-mnist", "test")


@pytest.mark.usefixtures("no_network")
def test_absent_files_are_named_with_their_place(copied: Path) -> None:
    (copied / "mnist" / f"{IMAGES}.gz").unlink()
    with pytest.raises(CrossbiasError) as caught:
        load_original("mnist", "train", root=copied)
    message = str(caught.value)
    assert f"{copied / 'mnist'} lacks {IMAGES}.gz;" in message
    assert "put the original files there" in message
    assert len(load_original("mnist", "t10k", root=copied).labels) == 200  # not affected
    assert sorted(path.suffix for path in (copied / "mnist").iterdir()) == [".gz"] * 3


def test_without_torchvision_the_message_names_the_extra(copied: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    assert len(load_original("mnist", "train", root=copied).labels) == 600  # nothing to download
    (copied / "mnist" / f"{IMAGES}.gz").unlink()
    with pytest.raises(CrossbiasError) as caught:
        load_original("mnist", "train", root=copied)
    assert str(caught.value) == (
        f"downloading {IMAGES}.gz needs torchvision: pip install 'crossbias[download]'; "
        f"or put the original files into {copied / 'mnist'}"
    )


@pytest.mark.usefixtures("no_network", "small_originals")
def test_a_root_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CrossbiasError, match="is not a folder that can be written to"):
        load_original("mnist", "train", root=tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def damaged(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(64) + content[middle + 64 :]


def other(content: bytes) -> bytes:
    raw = bytearray(gzip.decompress(content))
    raw[100] ^= 1
    return gzip.compress(bytes(raw))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut, "is truncated, as after an unfinished download; replace it"),
        (damaged, "is damaged or not a gzip file|is not the original file"),
        (other, r"is not the original file: the SHA-256 of its content is [0-9a-f]{64}, not"),
        (lambda _: b"<html>not found</html>", "is damaged or not a gzip file"),
        (lambda _: b"", "is not the original file|is damaged"),
        (gzip.decompress, "is damaged or not a gzip file"),
        (lambda _: gzip.compress(b"\0" * 3), "is not the original file"),
    ],
)
def test_a_file_that_is_not_the_original_is_refused(copied: Path, change, message: str) -> None:
    path = copied / "mnist" / f"{IMAGES}.gz"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CrossbiasError, match=message) as caught:
        load_original("mnist", "train", root=copied)
    assert str(path) in str(caught.value)


def test_a_folder_in_the_place_of_a_file_is_refused(copied: Path) -> None:
    path = copied / "mnist" / f"{IMAGES}.gz"
    path.unlink()
    path.mkdir()
    with pytest.raises(CrossbiasError, match=f"cannot read {path}: Is a directory"):
        load_original("mnist", "train", root=copied)


def test_a_file_that_unpacks_to_more_than_any_original_is_not_unpacked_whole(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("crossbias.data.generated.originals._LARGEST", 1000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(100_000)))
    read = hashlib.sha256(bytes(1001)).hexdigest()
    with pytest.raises(CrossbiasError, match=f"its content is {read}, not abc"):
        read_idx(path, sha256="abc")


@pytest.fixture
def mirror(small_originals: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server on this machine, behind an address that does not answer, offers the small files."""
    from torchvision.datasets import MNIST

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    folder = small_originals / "mnist"
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    sums = [(path.name, hashlib.md5(path.read_bytes()).hexdigest()) for path in folder.iterdir()]
    monkeypatch.setattr(MNIST, "resources", sums)
    address = f"http://127.0.0.1:{server.server_port}/"
    monkeypatch.setattr(MNIST, "mirrors", ["http://127.0.0.1:9/", address])
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.usefixtures("mirror")
def test_absent_files_are_downloaded_where_there_is_a_network(
    tmp_path: Path, small_originals: Path
) -> None:
    root = tmp_path / "new"
    root.mkdir()
    images, labels = load_original("mnist", "t10k", root=root)
    expected = load_original("mnist", "t10k", root=small_originals)
    assert torch.equal(images, expected.images)
    assert torch.equal(labels, expected.labels)
    names = sorted(path.name for path in (root / "mnist").iterdir())
    assert names == sorted(f"{name}.gz" for name in originals.CHECKSUMS["mnist"])


@pytest.mark.usefixtures("mirror")
def test_a_download_with_another_checksum_is_not_kept(tmp_path: Path, monkeypatch) -> None:
    from torchvision.datasets import MNIST

    wrong = [(name, "0" * 32) for name, _ in MNIST.resources]
    monkeypatch.setattr(MNIST, "resources", wrong)
    with pytest.raises(CrossbiasError, match="the download failed: File not found or corrupted"):
        load_original("mnist", "t10k", root=tmp_path)
    assert list((tmp_path / "mnist").iterdir()) == []
