"""Lists and tables of the published data sets with a mistake: refused with file and row."""

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crossbias import load
from crossbias.errors import CrossbiasError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (9, 9, 9)).save(path)


@pytest.fixture
def root(tmp_path):
    """A data root, with a picture beside it that no list may reach."""
    picture(tmp_path / "outside.png")
    return tmp_path / "root"


BIRD = {"img_filename": "087.Mallard/a.png", "y": "1", "split": "0", "place": "1"}
OUTSIDE = "../../outside.png"


def write_birds(root: Path, **changes: str) -> None:
    picture(root / "waterbirds/087.Mallard/a.png")
    (root / "waterbirds/link.png").symlink_to("../../outside.png")
    with open(root / "waterbirds/metadata.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(BIRD))
        writer.writeheader()
        writer.writerows([BIRD, BIRD | changes])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"img_filename": OUTSIDE}, "line 3: ../../outside.png leaves the folder of the images"),
        ({"img_filename": "/etc/hostname"}, "line 3: /etc/hostname is absolute"),
        ({"img_filename": "link.png"}, "line 3: link.png is a link out of the folder"),
        ({"y": "2"}, "metadata.csv line 3: y is '2'; it must be one of 0, 1"),
        ({"place": ""}, "metadata.csv line 3: place is ''; it must be one of 0, 1"),
        ({"split": "train"}, "line 3: split is 'train'; it must be one of 0, 1, 2"),
        ({"img_filename": "087.Mallard/b.png"}, "087.Mallard/b.png is missing"),
    ],
)
def test_a_mistake_in_the_table_of_waterbirds(root, changes, message):
    write_birds(root, **changes)
    with pytest.raises(CrossbiasError, match=message):
        load("waterbirds", "train", root=root)


def test_the_table_of_chest_x_rays_stays_in_its_folder(root):
    folder = root / "covid-cxr"
    picture(folder / "images/a.png")
    header = "patientid,finding,modality,folder,filename,url"
    rows = ["1,COVID-19,X-ray,images,a.png,http://a"]
    rows.append(f"2,Pneumonia,X-ray,images,../{OUTSIDE},http://a")
    (folder / "metadata.csv").write_text("\n".join([header, *rows]))
    with pytest.raises(CrossbiasError, match=r"metadata.csv line 3: .* leaves the folder"):
        load("covid-cxr", "train", root=root)
    (folder / "metadata.csv").write_text("\n".join([header, rows[0].removesuffix(",http://a")]))
    with pytest.raises(CrossbiasError, match="line 2 has 5 cells, but the header has 6"):
        load("covid-cxr", "train", root=root)


@pytest.mark.parametrize(
    ("parts", "attributes", "message"),
    [
        ("a.png 0\nb.png", "a.png 1 -1", "list_eval_partition.txt line 2 is 'b.png'"),
        ("a.png 0\nb.png 7", "a.png 1 -1", "line 2 is 'b.png 7'; it must be a file name and 0"),
        (f"a.png 0\n{OUTSIDE} 0", f"a.png 1 -1\n{OUTSIDE} 1 1", "outside.png leaves the folder"),
        ("a.png 0", "a.png 1", "list_attr_celeba.txt line 3 must have a file name and 2 times"),
        ("a.png 0", "a.png 1 0", "list_attr_celeba.txt line 3 must have a file name and 2 times"),
    ],
)
def test_a_mistake_in_the_lists_of_celeba(root, parts, attributes, message):
    folder = root / "celeba"
    picture(folder / "img_align_celeba/a.png")
    (folder / "list_eval_partition.txt").write_text(parts)
    (folder / "list_attr_celeba.txt").write_text(f"1\nBlond_Hair Male\n{attributes}\n")
    with pytest.raises(CrossbiasError, match=message):
        load("celeba", "train", root=root)


def test_an_empty_list_of_attributes_is_refused(root):
    write = root / "celeba"
    picture(write / "img_align_celeba/a.png")
    (write / "list_eval_partition.txt").write_text("a.png 0\n")
    (write / "list_attr_celeba.txt").write_text("")
    with pytest.raises(CrossbiasError, match="has no column 'Blond_Hair' in its second line"):
        load("celeba", "train", root=root)


def test_mistakes_in_the_lists_of_dogs_and_cats(root):
    folder = root / "dogs-cats"
    picture(folder / "test/1.png")
    for shade in ("bright", "dark"):
        (folder / f"list_{shade}.txt").write_text("")
    with pytest.raises(CrossbiasError, match="dogs-cats has no images of split 'train'"):
        load("dogs-cats", "train", root=root)
    (folder / "test_result.npy").write_bytes(b"no array")
    with pytest.raises(CrossbiasError, match=r"cannot read .*test_result\.npy safely: numpy\.save"):
        load("dogs-cats", "test", root=root)


@pytest.mark.parametrize("line", ["mouse.1.jpg", "cat.jpg", "cat.1.jpg\0", "cat.1.jpg,dark"])
def test_a_line_that_names_no_cat_and_no_dog_is_refused(line, root):
    folder = root / "dogs-cats"
    picture(folder / "train/cat.1.jpg")
    (folder / "list_bright.txt").write_text("dog.1.jpg\n")
    (folder / "list_dark.txt").write_text(f"cat.1.jpg\n\n{line}\n")
    with pytest.raises(CrossbiasError, match=r"list_dark\.txt line 3 is .*such as dog\.12\.jpg"):
        load("dogs-cats", "train", root=root)


@pytest.mark.parametrize(
    ("name", "list_name"),
    [
        ("dogs-cats", "list_dark.txt"),
        ("celeba", "list_eval_partition.txt"),
        ("celeba", "list_attr_celeba.txt"),
    ],
)
def test_a_list_that_is_no_text_is_refused_in_one_line(name, list_name, root):
    folder = root / name
    for each in ("list_dark.txt", "list_bright.txt", "list_eval_partition.txt"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / each).write_text("cat.1.jpg\n" if name == "dogs-cats" else "")
    path = folder / list_name
    path.write_bytes(b"\xff\xfe1\0")
    with pytest.raises(CrossbiasError, match=rf"{list_name} is not UTF-8 text; .*") as refused:
        load(name, "train", root=root)
    assert "\n" not in str(refused.value)
    path.unlink()
    path.mkdir()
    with pytest.raises(CrossbiasError, match=rf"cannot read .*{list_name}: Is a directory"):
        load(name, "train", root=root)


def test_a_malformed_address_counts_as_another_source(root):
    folder = root / "covid-cxr"
    picture(folder / "images/a.png")
    header = "patientid,finding,modality,folder,filename,url"
    row = "1,COVID-19,X-ray,images,a.png,http://[a"
    (folder / "metadata.csv").write_text(f"{header}\n{row}\n")
    assert load("covid-cxr", "train", root=root).biases.tolist() == [5]


def test_names_in_the_arrays_of_imdb_face_stay_in_its_folder(root):
    folder = root / "imdb-face"
    picture(folder / "imdb_crop/a.png")
    labels = {name: {"age": 20, "gender": 0} for name in ("a.png", OUTSIDE)}
    np.save(folder / "imdb_age_gender.npy", np.array(labels), allow_pickle=True)
    parts = {"train_list": ["a.png", OUTSIDE], "test_list": []}
    np.save(folder / "imdb_split.npy", np.array(parts), allow_pickle=True)
    with pytest.raises(CrossbiasError, match=r"imdb_split.npy: \.\./\.\./outside.png leaves the"):
        load("imdb-face", "train", root=root)
    with pytest.raises(CrossbiasError, match="imdb-face has no images of split 'test'"):
        load("imdb-face", "test", root=root)
