"""Your own data: a folder with a table, a folder for each class, Hugging Face, torch."""

import csv
import json
import logging
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from crossbias import create, load
from crossbias.data import Folder, from_torch
from crossbias.data.images.decoding import Fit, read_images
from crossbias.data.inspect.checking import check_source
from crossbias.errors import CrossbiasError
from crossbias.progress import Progress
from crossbias.types import UNKNOWN

from .pictures import noise, save


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def rows(count: int = 40) -> list[dict[str, str]]:
    """Labels of some X-rays; most of the ill are in hospital north, some hospitals are unknown."""
    found = []
    for number in range(count):
        ill = number % 2 == 0
        north = ill != (number % 10 < 2)
        place = "" if number % 13 == 12 else ("north" if north else "south")
        sex = "f" if number % 3 else "m"
        file = f"images/{number}.png"
        found.append({"file": file, "disease": str(int(ill)), "hospital": place, "sex": sex})
    return found


@pytest.fixture
def xrays(tmp_path) -> Path:
    """A folder of images with labels.csv in it."""
    folder = tmp_path / "x-rays"
    for number, row in enumerate(rows()):
        save(folder / row["file"], noise(12, 10, seed=number))
    write(folder, rows())
    return folder


def write(folder: Path, table: list[dict[str, str]]) -> None:
    with open(folder / "labels.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def source(folder: Path, **changes) -> Folder:
    options = {"labels": "labels.csv", "target": "disease", "bias": "hospital", "size": 8}
    return create(f"folder:{folder}", **options | changes)


def test_a_folder_with_a_table_is_read_as_the_table_says(xrays):
    write(xrays, [row | {"split": "train"} for row in rows()])
    data = source(xrays).load("train")
    expected, _ = read_images([xrays / row["file"] for row in rows()], Fit(8))
    assert torch.equal(data.inputs, expected)
    assert data.targets.tolist() == [int(row["disease"]) for row in rows()]
    place = {"north": 0, "south": 1, "": UNKNOWN}
    assert data.biases.tolist() == [place[row["hospital"]] for row in rows()]
    assert (data.classes, data.values["hospital"]) == (("0", "1"), ("north", "south"))
    assert data.name == f"folder:{xrays}"


def test_splits_that_are_made_are_disjoint_complete_and_repeat(xrays):
    splits = {name: source(xrays).load(name, seed=3) for name in ("train", "validation", "test")}
    assert {name: len(data) for name, data in splits.items()} == {
        "train": 28, "validation": 4, "test": 8,
    }  # fmt: skip
    seen = {image.tobytes() for data in splits.values() for image in data.inputs.numpy()}
    assert len(seen) == 40
    again, other = (source(xrays).load("test", seed=seed) for seed in (3, 4))
    assert again.hash == splits["test"].hash != other.hash


def test_splits_of_a_column_are_those_there_are(xrays):
    names = ["train", "val", "test", "elsewhere"]
    write(xrays, [row | {"part": names[at % 4]} for at, row in enumerate(rows())])
    found = source(xrays, split_by="part")
    assert found.available_splits == ("train", "validation", "elsewhere", "test")
    assert found.test_splits == ("elsewhere", "test")
    assert len(found.load("elsewhere")) == 10
    with pytest.raises(CrossbiasError, match=r"no column 'parts'.*did you mean 'part'"):
        source(xrays, split_by="parts").load("train")


def test_without_fractions_there_is_only_training(xrays):
    assert source(xrays, validation=0, test=0).available_splits == ("train",)
    with pytest.raises(CrossbiasError, match="leave nothing of"):
        source(xrays, validation=0.5, test=0.5).load("train")


def test_several_columns_are_one_bias(xrays):
    data = source(xrays, bias="hospital,sex").load("train")
    assert data.bias == "hospital,sex"
    assert data.values[data.bias] == ("north / f", "north / m", "south / f", "south / m")
    assert set(data.attributes) == {"hospital", "sex", "hospital,sex"}


def test_grey_images_and_further_attributes(xrays):
    data = source(xrays, channels=1, bias=None, attributes="sex").load("test")
    assert data.inputs.shape[1:] == (1, 8, 8)
    assert (data.bias, set(data.attributes), len(data.mean)) == (None, {"sex"}, 1)


def test_options_are_kept_so_that_the_data_is_found_again(xrays):
    data = source(xrays, bias="hospital,sex").load("train", seed=2)
    outside = ("version", "label_noise")  # known to every source
    options = {key: value for key, value in data.origin.items() if key not in outside}
    assert load(data.name, "train", **options).hash == data.hash


def test_the_table_may_lie_in_the_working_folder(xrays, tmp_path, monkeypatch):
    (xrays / "labels.csv").rename(tmp_path / "labels.csv")
    monkeypatch.chdir(tmp_path)
    assert len(source(xrays).load("test")) == 8


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"target": None}, r"needs the column to predict: --target .* file, disease, hospital"),
        ({}, {"target": "desease"}, r"no column 'desease' \(did you mean 'disease'"),
        ({}, {"bias": "hospitl"}, r"no column 'hospitl' \(did you mean 'hospital'"),
        ({}, {"bias": "sex,disease"}, "disease is both the target and the bias; name another"),
        ({}, {"file": "image"}, r"no column 'image' of .* --set data.file=COLUMN .* file, disease"),
        ({}, {"labels": "none.csv"}, "there is no table of labels none.csv, nor .*none.csv"),
        ({"file": "images/none.png"}, {}, "labels.csv line 5: images/none.png is missing"),
        ({"file": "../x-rays/images/3.png"}, {}, "line 5: ../x-rays/images/3.png leaves the"),
        ({"file": "/etc/hostname"}, {}, "line 5: /etc/hostname is absolute"),
        ({"file": ""}, {}, "line 5: no file is not the name of a file"),
        ({"file": "images/2.png"}, {}, "line 5 names images/2.png, and so does labels.csv line 4"),
        ({"file": "./images/2.png"}, {}, "line 5 names ./images/2.png, and so does"),
        ({"disease": "ill"}, {}, "line 5: disease is 'ill', but other rows have numbers"),
        ({"disease": ""}, {}, r"disease is missing in 1 of 40 rows \(labels.csv line 5\)"),
        (
            {"hospital": "7"},
            {},
            "line 5: hospital is '7', but other rows have text such as 'south'",
        ),
    ],
)
def test_a_table_with_a_mistake_is_refused_with_its_row(xrays, change, options, message):
    table = rows()
    table[3] |= change
    write(xrays, table)
    with pytest.raises(CrossbiasError, match=message):
        source(xrays, **options).load("train")


def test_a_damaged_image_is_named_with_its_row(xrays):
    (xrays / "images/3.png").write_text("nothing")
    write(xrays, [row | {"split": "train"} for row in rows()])
    with pytest.raises(CrossbiasError, match=r"line 5: images/3.png is not an image"):
        source(xrays).load("train")


def test_a_class_without_conflicting_samples_is_reported(xrays, caplog):
    places = {"1": "north", "0": "south"}
    write(xrays, [row | {"hospital": places[row["disease"]]} for row in rows()])
    with caplog.at_level(logging.WARNING):
        source(xrays).load("train")
    assert "no sample of 0, 1 conflicts with its usual hospital" in caplog.text


class Notes(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_notes_about_the_table_are_given_once_and_by_the_check(xrays):
    table = [row | {"sex": "F" if at == 5 else row["sex"]} for at, row in enumerate(rows())]
    write(xrays, table)
    text = (xrays / "labels.csv").read_text().replace(",", ";")
    (xrays / "labels.csv").write_text(text)
    found = source(xrays)
    found.progress = Notes()
    for split in found.available_splits:
        found.load(split)
    told = [note for note in found.progress.texts if "labels.csv" in note]
    assert len(told) == 2
    assert "is read as separated by semicolons" in told[0]
    assert "sex: 'F' (1 row) and 'f' (25 rows) are kept apart" in told[1]
    warnings = check_source(source(xrays)).warnings
    assert [text for text in warnings if text in told] == told


def test_a_bias_of_many_numbers_and_columns_that_are_left_out_are_named(xrays):
    table = [row | {"age": str(20 + at), "scanner": "old"} for at, row in enumerate(rows())]
    write(xrays, table)
    assert source(xrays).other_columns == ("age", "scanner")
    assert source(xrays, attributes=("sex",)).other_columns == ()
    assert source(xrays, group_by="age").other_columns == ("scanner",)
    found = source(xrays, bias="age")
    assert found.other_columns == ("scanner",)
    (note,) = found.notes
    assert note.endswith(
        "labels.csv: age has 40 values in 40 rows; bin the numbers, as in age:30,40"
    )


def test_a_patient_is_in_one_split_and_is_no_attribute(xrays):
    write(xrays, [row | {"patient": f"p{at // 8}"} for at, row in enumerate(rows())])
    found = source(xrays, group_by="patient")
    parts = [{row // 8 for row in found.rows(name, seed=1)} for name in found.available_splits]
    assert sum(map(len, parts)) == 5
    assert set(found.load("train").attributes) == {"hospital", "sex"}
    assert "patient" in source(xrays).load("train").attributes
    assert found.load("train").origin["group_by"] == "patient"


def test_the_patient_is_a_cluster_and_drawn_splits_stay_as_they_are(xrays):
    """One row has no patient and counts alone; clusters are numbered alike in all splits."""
    patients = [f"p{at // 8}" if at else "" for at in range(40)]
    write(xrays, [row | {"patient": name} for row, name in zip(rows(), patients, strict=True)])
    plain = source(xrays)
    assert plain.load("test").cluster is None
    given = source(xrays, cluster="patient")
    given.progress = Notes()
    for name in plain.available_splits:
        kept = given.rows(name, seed=0)
        assert kept == plain.rows(name, seed=0)
        data = given.load(name)
        assert data.cluster.tolist() == [1 + row // 8 if row else 0 for row in kept]
        assert "patient" not in data.attributes
    torn = [note for note in given.progress.texts if "are in several splits" in note]
    assert len(torn) == 1
    assert torn[0].startswith("5 values of patient are in several splits: p0 in ")
    assert torn[0].endswith("group_by=patient draws splits apart")
    implied = source(xrays, group_by="patient")
    implied.progress = Notes()
    data = implied.load("train")
    assert data.cluster.tolist() == [
        1 + row // 8 if row else 0 for row in implied.rows("train", seed=0)
    ]
    assert not [note for note in implied.progress.texts if "several splits" in note]


def test_a_binned_bias_is_recorded_as_it_was_asked_for(xrays):
    write(xrays, [row | {"age": str(20 + at)} for at, row in enumerate(rows())])
    data = source(xrays, bias="age:30,40").load("train")
    assert (data.bias, data.origin["bias"]) == ("age:30,40", "age:30,40")
    again = source(xrays, **{"bias": data.bias}).load("train")
    assert data.values[data.bias] == ("<30", "30-40", ">=40")
    assert again.hash == data.hash


def test_a_folder_without_its_prefix_gets_the_remedy(xrays, monkeypatch):
    (xrays.parent / "my photos").mkdir()
    monkeypatch.chdir(xrays.parent)
    with pytest.raises(CrossbiasError, match=r"'x-rays', but .* write --data folder:x-rays$"):
        load("x-rays", "train")
    with pytest.raises(CrossbiasError, match=r"write --data 'folder:my photos'$"):
        load("my photos", "train")
    with pytest.raises(CrossbiasError, match=r"there is no data set 'x-ray'"):
        load("x-ray", "train")


@pytest.mark.parametrize("by_split", [False, True])
def test_a_folder_for_each_class(tmp_path, by_split):
    for number in range(20):
        part = Path("train" if number < 16 else "test") if by_split else Path()
        name = part / ("cat" if number % 2 else "dog") / "more" / f"{number:02}.png"
        save(tmp_path / "pets" / name, noise(9, 9, seed=number))
    (tmp_path / "pets" / ".hidden").touch()
    found = create(f"folder:{tmp_path / 'pets'}", size=8, validation=0)
    assert found.available_splits == ("train", "test")
    data = found.load("train")
    assert data.classes == ("cat", "dog")
    assert torch.bincount(data.targets).tolist() == [8, 8]
    cat, _ = read_images(sorted((tmp_path / "pets").rglob("cat/more/*.png")), Fit(8))
    assert {image.tobytes() for image in data.inputs[data.targets == 0].numpy()} <= {
        image.tobytes() for image in cat.numpy()
    }


def test_files_outside_the_folders_of_classes_are_refused(tmp_path):
    save(tmp_path / "pets" / "cat" / "a.png", noise(9, 9))
    save(tmp_path / "pets" / "b.png", noise(9, 9))
    with pytest.raises(
        CrossbiasError, match=r"b.png is not in a folder of a class; pass the table"
    ):
        load(f"folder:{tmp_path / 'pets'}", "train")


def test_one_class_only_is_refused(tmp_path):
    save(tmp_path / "pets" / "cat" / "a.png", noise(9, 9))
    with pytest.raises(CrossbiasError, match=r"one folder, 'cat', .* pass the table .* each class"):
        load(f"folder:{tmp_path / 'pets'}", "train")


def test_links_to_folders_are_refused(tmp_path):
    save(tmp_path / "elsewhere" / "a.png", noise(9, 9))
    save(tmp_path / "pets" / "cat" / "a.png", noise(9, 9))
    (tmp_path / "pets" / "dog").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CrossbiasError, match="dog is a link to a folder"):
        load(f"folder:{tmp_path / 'pets'}", "train")


@pytest.mark.parametrize("name", ["folder", "folder:", "folder:/nowhere", "hf:/nowhere"])
def test_a_folder_that_is_none_is_refused(name):
    with pytest.raises(CrossbiasError, match=r"is not a folder; name yours as (folder|hf):PATH"):
        load(name, "train")


def test_a_table_in_place_of_its_folder_is_told_apart(xrays):
    said = r"is not a folder; name yours as folder:PATH, and the table with --labels labels.csv$"
    with pytest.raises(CrossbiasError, match=said):
        load(f"folder:{xrays / 'labels.csv'}", "train")


def hugging_face(seed: int = 0) -> datasets.Dataset:
    table = rows()
    pictures = [Image.fromarray(noise(12, 10, seed=seed + row)) for row in range(len(table))]
    columns = {
        "picture": pictures,
        "disease": [int(row["disease"]) for row in table],
        "hospital": [row["hospital"] or None for row in table],
    }
    features = datasets.Features(
        picture=datasets.Image(),
        disease=datasets.ClassLabel(names=["well", "ill"]),
        hospital=datasets.Value("string"),
    )
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize("layout", ["one", "several", "parquet"])
def test_a_hugging_face_data_set_equals_the_folder_it_was_made_of(
    tmp_path, xrays, layout, monkeypatch
):
    whole, path = hugging_face(), tmp_path / "saved"
    if layout == "several":
        parts = {"train": whole.select(range(30)), "test": whole.select(range(30, 40))}
        datasets.DatasetDict(parts).save_to_disk(path)
    elif layout == "one":
        whole.save_to_disk(path)
    else:
        path.mkdir()
        whole.select(range(30)).to_parquet(path / "train-00000-of-00001.parquet")
        whole.select(range(30, 40)).to_parquet(path / "test-00000-of-00001.parquet")
    table = rows()
    if layout != "one":
        table = [row | {"split": "train" if at < 30 else "test"} for at, row in enumerate(table)]
    write(xrays, table)
    for split in ("train", "test"):
        found = load(f"hf:{path}", split, target="disease", bias="hospital", size=8)
        expected = source(xrays).load(split)
        assert torch.equal(found.inputs, expected.inputs)
        # The folder's classes are sorted numbers, these are sorted names: ill, well.
        assert torch.equal(found.targets, 1 - expected.targets)
        assert torch.equal(found.biases, expected.biases)
    assert found.classes == ("ill", "well")


def test_a_hugging_face_set_cannot_serve_its_pixels_to_another(tmp_path):
    """Its fingerprint is a text in its own folder: two sets may have the same."""
    for name, seed in (("honest", 0), ("crafted", 1000)):
        hugging_face(seed).save_to_disk(tmp_path / name)
        state = tmp_path / name / "state.json"
        content = json.loads(state.read_text()) | {"_fingerprint": "0123456789abcdef"}
        state.write_text(json.dumps(content))
    options = {"target": "disease", "size": 8}
    first = load(f"hf:{tmp_path / 'crafted'}", "train", **options).inputs
    second = load(f"hf:{tmp_path / 'honest'}", "train", **options).inputs
    assert not torch.equal(first, second)


def test_hugging_face_data_that_cannot_be_used_is_refused(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        CrossbiasError, match="neither a data set saved by save_to_disk of datasets nor"
    ):
        load(f"hf:{tmp_path / 'empty'}", "train", target="disease")
    hugging_face().remove_columns("picture").save_to_disk(tmp_path / "plain")
    with pytest.raises(CrossbiasError, match=r"needs one column of images, but has 0 \(its col"):
        load(f"hf:{tmp_path / 'plain'}", "train", target="disease")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CrossbiasError, match=r"pip install 'crossbias\[huggingface\]'"):
        load(f"hf:{tmp_path / 'plain'}", "train", target="disease")


class Samples(torch.utils.data.Dataset):
    """A list as a torch data set."""

    def __init__(self, samples: list) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, row: int):
        return self.samples[row]


def test_a_torch_data_set_of_dictionaries_with_text_and_gaps():
    pixels = [noise(5, 4, seed=number) for number in range(4)]
    places = ["north", None, "south", float("nan")]
    samples = [
        {"image": Image.fromarray(pixels[at]), "ill": "yn"[at % 2], "hospital": places[at]}
        for at in range(4)
    ]
    data = from_torch(
        Samples(samples), inputs="image", target="ill", bias="hospital", classes=("y", "n"),
        name="x-rays", split="test",
    )  # fmt: skip
    assert np.array_equal(data.inputs.numpy(), np.stack(pixels).transpose(0, 3, 1, 2))
    assert data.targets.tolist() == [0, 1, 0, 1]
    assert data.biases.tolist() == [0, UNKNOWN, 1, UNKNOWN]
    assert (data.bias, data.values["hospital"]) == ("hospital", ("north", "south"))
    assert (data.name, data.split) == ("x-rays", "test")


def test_numbers_of_a_torch_data_set_stay_as_they_are():
    images, ill = torch.rand(3, 1, 4, 4), torch.tensor([0, 2, 2])
    data = from_torch(TensorDataset(images, ill, torch.tensor([1, -1, 3])), bias=2)
    assert torch.equal(data.inputs, (255 * images).round().to(torch.uint8))
    assert data.targets.tolist() == [0, 2, 2]
    assert data.num_classes == 3
    assert data.biases.tolist() == [1, UNKNOWN, 3]


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([], {}, "has no samples"),
        ([(torch.rand(3), 0)], {"bias": 2}, "sample 0 of the data set has no 2; it has tuple"),
        ([{"image": 0}], {"inputs": "picture"}, r"has no 'picture'; it has \['image'\]"),
        ([(torch.full((3, 4, 4), -1.0), 0)], {}, "values from -1 to -1; leave the normalization"),
        ([(Image.new("I;16", (4, 4)), 0)], {}, r"more than 8 bits \(mode I;16\); scale it"),
        ([(torch.zeros(3, 4), 0)], {}, r"is \(3, 4\) torch.float32; it must be an image"),
        ([(torch.zeros(3), 0), (torch.zeros(4), 0)], {}, r"sample 1 .* is \(4,\)"),
        ([(torch.zeros(3), 0.5)], {}, "target is '0.5' in the data set"),
        ([(torch.zeros(3), 0), (torch.zeros(3), "a")], {}, "target is '0' .* in all samples"),
        ([(torch.zeros(3), "b")], {"classes": ("a",)}, "target is 'b' .* one of"),
        ([(torch.zeros(3), 0), (torch.zeros(3), None)], {}, "sample 1 .* has no target"),
    ],
)
def test_a_torch_data_set_that_cannot_be_used_is_refused(samples, options, message):
    with pytest.raises(CrossbiasError, match=message):
        from_torch(Samples(samples), **options)
