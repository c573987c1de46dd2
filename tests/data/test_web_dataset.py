"""WebDataset tars are a source of data, and streams are packed into them."""

import io
import json
import os
import tarfile
from pathlib import Path

import datasets
import pytest
import torch
from PIL import Image

from crossbias.data import load, pack
from crossbias.data.own.packing import streamed
from crossbias.data.own.tar_samples import tar_samples
from crossbias.data.own.web_dataset import WebDataset
from crossbias.errors import CrossbiasError

from .pictures import noise, save

OPTIONS = {"target": "disease", "bias": "hospital", "size": 8}


def picture(number: int, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(noise(20, 15, seed=number)).save(file, format=kind)
    return file.getvalue()


def labels(number: int) -> dict[str, object]:
    return {
        "disease": "ill" if number % 3 == 0 else "well",
        "hospital": ["north", "south", None][number % 5 % 3],
        "age": 20 + number,
        "boxes": [1, 2],  # no label
    }


def sample(number: int) -> dict[str, bytes]:
    """The files of one sample."""
    name = f"a/{number:04d}"
    return {f"{name}.png": picture(number), f"{name}.json": json.dumps(labels(number)).encode()}


def write_tar(path: Path, files: dict[str, bytes], **about: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in about.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def tars(tmp_path) -> Path:
    """Thirty samples in three tars."""
    for name, numbers in (
        ("train-0", range(12)),
        ("train-1", range(12, 24)),
        ("val-0", range(24, 30)),
    ):
        files = {name: content for n in numbers for name, content in sample(n).items()}
        write_tar(tmp_path / "tars" / f"{name}.tar", files)
    return tmp_path / "tars"


@pytest.fixture
def folder(tmp_path) -> Path:
    """The same samples as files with a table."""
    lines = ["file,split,disease,hospital"]
    for number in range(30):
        save(tmp_path / "files" / f"{number}.png", noise(20, 15, seed=number))
        split = "train" if number < 24 else "validation"
        found = labels(number)
        lines.append(f"{number}.png,{split},{found['disease']},{found['hospital'] or ''}")
    (tmp_path / "files" / "labels.csv").write_text("\n".join(lines))
    return tmp_path / "files"


@pytest.mark.parametrize("store", ["pixels", "bytes"])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_tars_equal_the_folder_with_the_same_images(tars, folder, split, store):
    options = OPTIONS | {"attributes": (), "store": store}
    found = load(f"webdataset:{tars}", split, **options)
    expected = load(f"folder:{folder}", split, labels="labels.csv", **options)
    assert torch.equal(found.inputs, expected.inputs)
    assert found.hash == expected.hash


def test_one_tar_is_split_by_drawing(tars):
    (tars / "train-0.tar").rename(tars.parent / "all.tar")
    path = tars.parent / "all.tar"
    found = load(f"webdataset:{path}", "train", **OPTIONS, validation=0, test=0.25)
    assert len(found) == 9


def test_labels_come_from_text_files_too(tmp_path):
    files = {}
    for number in range(8):
        files[f"{number}.jpg"] = picture(number, "JPEG")
        files[f"{number}.cls"] = b"%d\n" % (number % 2)
        files[f"{number}.place.txt"] = b"north"
        files[f"{number}.pth"] = b"cos\nsystem\n(S'false'\ntR."  # never read
    write_tar(tmp_path / "a.tar", files)
    (first, *_, last) = tar_samples(tmp_path / "a.tar")
    assert (first.key, first.labels) == ("0", {"cls": "0", "place": "north"})
    assert last.labels["cls"] == "1"
    found = load(f"webdataset:{tmp_path / 'a.tar'}", "train", target="cls", size=8)
    assert found.classes == ("0", "1")


def test_a_changed_tar_is_read_again(tars):
    before = load(f"webdataset:{tars}", "validation", **OPTIONS).inputs.clone()
    files = {name: content for n in range(30, 36) for name, content in sample(n).items()}
    write_tar(tars / "val-0.tar", files)
    os.utime(tars / "val-0.tar", ns=(1, 1))
    after = load(f"webdataset:{tars}", "validation", **OPTIONS).inputs
    assert not torch.equal(before, after)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"0.json": b"{}"}, r"0 has no image; write one"),
        ({"0.png": picture(0), "0.b.png": picture(1)}, r"0 has two images"),
        ({"0.png": picture(0), "0.json": b"[1]"}, r"0.json must be a JSON object"),
        ({"0.png": picture(0), "0.json": b"{"}, r"0.json cannot be read"),
        ({"0.png": picture(0), "0.cls": b"\xff"}, r"0.cls cannot be read"),
        ({"0.png": picture(0), "0.cls": b"1", "0.cls.json": b'{"cls": 2}'}, r"label 'cls' twice"),
        ({"README": b"text"}, r"has no samples in its tars"),
    ],
)  # fmt: skip
def test_tars_that_cannot_be_used_are_refused(tmp_path, files, message):
    write_tar(tmp_path / "a.tar", files)
    with pytest.raises(CrossbiasError, match=message) as refused:
        load(f"webdataset:{tmp_path / 'a.tar'}", "train", target="cls")
    assert "\n" not in str(refused.value)


def test_files_that_are_no_tars_are_refused(tmp_path, tars):
    with pytest.raises(CrossbiasError, match="neither a tar nor a folder of tars"):
        load("webdataset:/nowhere", "train", target="cls")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CrossbiasError, match=r"has no \.tar files"):
        load(f"webdataset:{tmp_path / 'empty'}", "train", target="cls")
    (tmp_path / "a.tar").write_bytes(b"no tar, but long enough to look like one" * 30)
    with pytest.raises(CrossbiasError, match="cannot be read as a tar without compression"):
        load(f"webdataset:{tmp_path / 'a.tar'}", "train", target="cls")
    whole = (tars / "train-0.tar").read_bytes()
    middle = [s.image.offset for s in tar_samples(tars / "train-0.tar")][5] + 3
    (tmp_path / "a.tar").write_bytes(whole[:middle])
    with pytest.raises(CrossbiasError, match=r"a\.tar (ends in the middle|cannot be read)"):
        load(f"webdataset:{tmp_path / 'a.tar'}", "train", target="disease")


def test_links_in_a_tar_lead_nowhere(tmp_path):
    write_tar(tmp_path / "a.tar", {"0.png": b""}, type=tarfile.SYMTYPE, linkname="/etc/passwd")
    with pytest.raises(CrossbiasError, match="has no samples"):
        load(f"webdataset:{tmp_path / 'a.tar'}", "train", target="cls")


def hugging_face(count: int = 30) -> datasets.Dataset:
    columns = {
        "picture": [{"bytes": picture(n), "path": None} for n in range(count)],
        "disease": [int(labels(n)["disease"] == "ill") for n in range(count)],
        "hospital": [labels(n)["hospital"] for n in range(count)],
    }
    features = datasets.Features(
        picture=datasets.Image(),
        disease=datasets.ClassLabel(names=["well", "ill"]),
        hospital=datasets.Value("string"),
    )
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize("kind", ["stream", "whole", "dictionaries"])
def test_packed_samples_equal_the_folder(tmp_path, folder, kind):
    whole = hugging_face()
    train, rest = whole.select(range(24)), whole.select(range(24, 30))
    for split, part in (("train", train), ("validation", rest)):
        given = {"whole": part, "stream": part.to_iterable_dataset()}.get(kind)
        if given is None:
            place = 0 if split == "train" else 24
            given = [{"image": picture(n + place), **labels(n + place)} for n in range(len(part))]
        assert pack(given, tmp_path / "out", split=split, tar_bytes=6000) == len(part)
    tars = list((tmp_path / "out").glob("train-*.tar"))
    assert len(tars) > 2
    assert max(tar.stat().st_size for tar in tars) <= 10240  # tars are written in such records
    options = OPTIONS | {"attributes": ()}
    for split in ("train", "validation"):
        found = load(f"webdataset:{tmp_path / 'out'}", split, **options)
        expected = load(f"folder:{folder}", split, labels="labels.csv", **options)
        assert found.hash == expected.hash


def test_an_interrupted_packing_goes_on_with_the_same_bytes(tmp_path):
    def broken(count):
        for number in range(30):
            if number == count:
                raise KeyboardInterrupt
            yield {"image": picture(number), **labels(number)}

    pack(broken(None), tmp_path / "whole", tar_bytes=6000)
    with pytest.raises(KeyboardInterrupt):
        pack(broken(17), tmp_path / "out", tar_bytes=6000)
    there = sorted((tmp_path / "out").iterdir())
    assert 0 < len(there) < len(list((tmp_path / "whole").iterdir()))
    assert pack(broken(None), tmp_path / "out", tar_bytes=6000) == 30
    for tar in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / tar.name).read_bytes() == tar.read_bytes()


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"a": 1, "b": "x"}, r"sample 0 has 0 images \(columns: a, b\)"),
        ({"a": picture(0), "b": picture(1)}, r"sample 0 has 2 images \(a, b\)"),
        ({"a": b"no image"}, r"the image of sample 0 cannot be read"),
    ],
)
def test_samples_that_cannot_be_packed_are_named(tmp_path, sample, message):
    with pytest.raises(CrossbiasError, match=message):
        pack([sample], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_command_streams_a_folder_of_parquet_files(tmp_path, crossbias, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "hf"))
    (tmp_path / "parquet").mkdir()
    hugging_face(12).to_parquet(tmp_path / "parquet" / "train-00000-of-00001.parquet")
    paths = [str(tmp_path / name) for name in ("parquet", "out")]
    code, out, _ = crossbias("data", "pack", paths[0], "--out", paths[1])
    assert code == 0
    assert "train: 12 samples" in out
    found = load(f"webdataset:{tmp_path / 'out'}", "train", target="disease", size=8)
    assert found.classes == ("ill", "well")
    with pytest.raises(CrossbiasError, match=r"datasets cannot read dev of"):
        streamed(str(tmp_path / "parquet"), "dev")


def test_rows_of_tars_keep_columns_and_make_the_rest_when_asked(tmp_path):
    """A list of a million images with their names took a kilobyte for each of them."""
    first = {"0.png": picture(0), "0.json": b'{"place": "north", "sex": "f"}'}
    second = {"1.png": picture(1), "1.json": b'{"age": 3, "place": "north"}'}
    write_tar(tmp_path / "a.tar", first)
    write_tar(tmp_path / "b.tar", second)
    source = WebDataset(path=str(tmp_path))
    columns = {name: list(cells) for name, cells in source.table.columns.items()}
    assert columns == {"place": ["north", "north"], "sex": ["f", ""], "age": ["", "3"]}
    assert list(columns) == ["place", "sex", "age"]
    assert source.table.column("place")[0] is source.table.column("place")[1]
    assert list(source.table.where) == ["a.tar 0", "b.tar 1"]
    assert [item.name for item in source.items] == ["a.tar 0: the image", "b.tar 1: the image"]
    assert source.items[1] is not source.items[1]
    with source.items[-1].open() as file:
        assert file.read() == picture(1)
    assert source.items[1:][0].size == len(picture(1))
