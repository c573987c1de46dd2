"""One source object reads each file once, however many of its splits are loaded."""

import builtins
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from crossbias.data import DATASETS, BiasedDataset, Source, create_source
from crossbias.data.generated import originals
from crossbias.data.images import files_inside
from crossbias.data.own import image_folder, table_source
from crossbias.data.published import covid, imdb_face, waterbirds
from crossbias.data.source import once

from .pictures import noise, save

MNIST = [
    f"{part}-{kind}-ubyte.gz"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def counted(monkeypatch) -> Callable[[object, str], Counter]:
    """Replace a function by one that also counts the file names in its first argument."""

    def replace(owner: object, name: str) -> Counter:
        real, calls = getattr(owner, name), Counter()

        def counting(first, *arguments, **options):
            if isinstance(first, (str, Path)):  # os.stat also takes file descriptors
                calls[Path(first).name] += 1
            return real(first, *arguments, **options)

        monkeypatch.setattr(owner, name, counting)
        return calls

    return replace


def load_all(source: Source, root: Path | None = None) -> list[BiasedDataset]:
    """Ask everything of a source that an experiment asks: its splits, their data, their files."""
    loaded = [source.load(split, root=root) for split in source.available_splits]
    for split in source.available_splits:
        source.files(split, root=root)
    return loaded


@pytest.mark.parametrize(
    ("name", "collections"),
    [
        ("biased-mnist", 1),
        ("colored-mnist", 1),
        ("colored-mnist-lnl", 1),
        ("watermarked-mnist", 2),  # Fashion-MNIST's files have the same names
    ],
)
@pytest.mark.usefixtures("small_originals")
def test_each_file_of_mnist_is_read_and_hashed_once(name, collections, counted) -> None:
    reads = counted(originals, "read_idx")
    found = load_all(create_source(name))
    assert len(found) == len(DATASETS[name].splits)
    assert reads == dict.fromkeys(MNIST, collections)


@pytest.fixture
def xrays(tmp_path) -> Path:
    """Forty images in two folders and a table of their labels."""
    lines = ["file,disease,hospital"]
    for number in range(40):
        file = f"{'ab'[number % 2]}/{number}.png"
        save(tmp_path / "x-rays" / file, noise(12, 10, seed=number))
        lines.append(f"{file},{number % 2},{'north' if number % 3 else 'south'}")
    (tmp_path / "x-rays" / "labels.csv").write_text("\n".join(lines))
    return tmp_path / "x-rays"


def folder(path: Path) -> Source:
    return create_source(
        f"folder:{path}", labels="labels.csv", target="disease", bias="hospital", size=8
    )


def test_the_table_of_a_folder_is_parsed_once_and_split_once_for_each_seed(
    xrays, counted, monkeypatch
):
    parsed, resolved = counted(image_folder, "read_table"), counted(image_folder, "files_inside")
    seeds = []
    real = table_source.splits_of
    monkeypatch.setattr(
        table_source, "splits_of", lambda *a, **k: seeds.append(k["seed"]) or real(*a, **k)
    )
    source = folder(xrays)
    load_all(source)
    assert parsed == {"labels.csv": 1}
    assert resolved == {"x-rays": 1}
    assert seeds == [0]
    source.load("train", seed=5)
    source.load("test", seed=5)
    assert seeds == [0, 5]


def test_a_cached_image_of_a_folder_costs_one_stat(xrays, counted) -> None:
    """The test allows one stat for each file, whose size and time identify it in the cache.

    Whether a file exists and is no link is known from the listing of its folder, without a stat.
    """
    first = load_all(folder(xrays))
    stats, links, opened = counted(os, "stat"), counted(os, "lstat"), counted(builtins, "open")
    again = load_all(folder(xrays))
    images = [f"{number}.png" for number in range(40)]
    assert {name: stats[name] for name in images} == dict.fromkeys(images, 1)
    assert not any(calls[name] for calls in (links, opened) for name in images)
    assert [data.hash for data in again] == [data.hash for data in first]


def test_a_link_is_resolved_and_a_plain_file_needs_no_stat(tmp_path, counted) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "plain.png").touch()
    (tmp_path / "images" / "link.png").symlink_to("plain.png")
    links, stats = counted(os, "lstat"), counted(os, "stat")
    names = ["plain.png", "link.png"]
    found = files_inside.files_inside(tmp_path / "images", names, names)
    assert found == [tmp_path / "images" / name for name in names]
    assert links["plain.png"] + stats["plain.png"] <= 1  # the target of the link is resolved
    assert links["link.png"] + stats["link.png"] >= 1


def test_the_lists_of_published_data_are_read_once(tmp_path, counted) -> None:
    (tmp_path / "waterbirds").mkdir()
    lines = ["img_filename,y,split,place"]
    for number in range(6):
        save(tmp_path / f"waterbirds/{number}.png", noise(9, 9, seed=number))
        lines.append(f"{number}.png,{number % 2},{number // 2},{number % 2}")
    (tmp_path / "waterbirds/metadata.csv").write_text("\n".join(lines))
    reads = counted(waterbirds, "read_table")
    first = load_all(create_source("waterbirds"), tmp_path)
    stats = counted(os, "stat")
    again = load_all(create_source("waterbirds"), tmp_path)
    assert reads == {"metadata.csv": 2}  # once by each of the two sources
    assert {stats[f"{number}.png"] for number in range(6)} == {1}
    assert [data.hash for data in again] == [data.hash for data in first]


def test_the_chest_x_rays_and_their_patients_are_read_once(tmp_path, counted) -> None:
    lines = ["patientid,finding,modality,folder,filename,url"]
    for number in range(20):
        save(tmp_path / f"covid-cxr/images/{number}.png", noise(9, 9, seed=number))
        finding = "COVID-19" if number % 2 else "No Finding"
        lines.append(f"{number},{finding},X-ray,images,{number}.png,https://github.com/a")
    (tmp_path / "covid-cxr/metadata.csv").write_text("\n".join(lines))
    reads = counted(covid, "read_table")
    load_all(create_source("covid-cxr"), tmp_path)
    assert reads == {"metadata.csv": 1}


def test_the_lists_of_celeba_are_read_once(tmp_path, counted) -> None:
    names = [f"{number:06}.jpg" for number in range(12)]
    for number, name in enumerate(names):
        save(tmp_path / "celeba/img_align_celeba" / name, noise(9, 9, seed=number))
    parts = [f"{name} {number // 4}" for number, name in enumerate(names)]
    (tmp_path / "celeba/list_eval_partition.txt").write_text("\n".join(parts))
    signs = [(number % 2 * 2 - 1, number // 2 % 2 * 2 - 1) for number in range(12)]
    rows = [f"{name} {blond} {male}" for name, (blond, male) in zip(names, signs, strict=True)]
    text = "\n".join(["12", "Blond_Hair Male", *rows])
    (tmp_path / "celeba/list_attr_celeba.txt").write_text(text)
    reads = counted(Path, "read_text")
    load_all(create_source("celeba"), tmp_path)
    lists = {name: count for name, count in reads.items() if name.endswith(".txt")}
    assert lists == {"list_eval_partition.txt": 1, "list_attr_celeba.txt": 1}


def test_the_lists_of_dogs_and_cats_are_read_once(tmp_path, counted) -> None:
    for name in ("cat.1", "cat.2", "dog.1", "dog.2"):
        save(tmp_path / f"dogs-cats/train/{name}.jpg", noise(9, 9))
    (tmp_path / "dogs-cats/list_dark.txt").write_text("cat.1.jpg\ndog.1.jpg\n")
    (tmp_path / "dogs-cats/list_bright.txt").write_text("cat.2.jpg\ndog.2.jpg\n")
    reads = counted(Path, "read_text")
    source = create_source("dogs-cats")
    for split in ("train", "test-other"):
        assert source.load(split, root=tmp_path).targets.tolist() == [0, 1]
    lists = {name: count for name, count in reads.items() if name.endswith(".txt")}
    assert lists == {"list_dark.txt": 1, "list_bright.txt": 1}


def test_the_table_beside_each_cartoon_is_read_once(tmp_path, counted) -> None:
    for number in range(40):
        save(tmp_path / f"cartoonset10k/{number}.png", noise(9, 9, seed=number))
        face = number % 8 if number > 30 else 2 * (number % 4)
        text = f'"hair_color", {2 * (number % 4)}, 10\n"face_color", {face}, 11\n'
        (tmp_path / f"cartoonset10k/{number}.csv").write_text(text)
    reads = counted(builtins, "open")
    load_all(create_source("cartoon"), tmp_path)
    assert {reads[f"{number}.csv"] for number in range(40)} == {1}


def test_the_arrays_of_imdb_face_are_read_once(tmp_path, counted) -> None:
    labels, names = {}, []
    for number in range(12):
        name = f"{number}.jpg"
        save(tmp_path / "imdb-face/imdb_crop" / name, noise(9, 9, seed=number))
        labels[name] = {"age": 20 if number % 2 else 50, "gender": number // 2 % 2}
        names.append(name)
    lists = {"train_list": names[:8], "test_list": names[8:]}
    for name, content in (("imdb_age_gender", labels), ("imdb_split", lists)):
        np.save(tmp_path / f"imdb-face/{name}.npy", np.array(content, dtype=object))
    reads = counted(imdb_face, "read_dictionary")
    load_all(create_source("imdb-face"), tmp_path)
    assert reads == {"imdb_age_gender.npy": 1, "imdb_split.npy": 1}


def test_a_failure_is_not_remembered_and_sources_share_nothing() -> None:
    class Counting(Source):
        name, calls, broken = "counting", 0, True

        @once
        def half(self, number: int, *, of: int = 2) -> float:
            self.calls += 1
            if self.broken:
                raise OSError("the disk is away")
            return number / of

        def make(self, split, *, root, seed):
            return BiasedDataset(inputs=torch.zeros(1, 1), targets=torch.zeros(1).long())

    source, other = Counting(), Counting()
    with pytest.raises(OSError, match="away"):
        source.half(3)
    source.broken = other.broken = False
    assert [source.half(3), source.half(3), source.half(3, of=4), source.half(5)] == [
        1.5, 1.5, 0.75, 2.5,
    ]  # fmt: skip
    assert (source.calls, other.half(3), other.calls) == (4, 1.5, 1)
