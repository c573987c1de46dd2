"""Tables of labels: columns become numbers, mistakes are named with their row."""

import logging
import sys
from collections import Counter

import pyarrow
import pyarrow.parquet
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossbias import BiasedDataset
from crossbias.data.images.encoded_images import UnusableImages
from crossbias.data.images.files_inside import files_inside
from crossbias.data.own.labels import (
    TableLabels,
    report_missing_conflicts,
    split_by_fraction,
    splits_of,
)
from crossbias.data.own.table import LabelTable
from crossbias.data.own.table_files import read_table
from crossbias.errors import CrossbiasError


def table(**columns: list[str]) -> LabelTable:
    rows = len(next(iter(columns.values())))
    return LabelTable("labels.csv", columns, [f"labels.csv line {row + 2}" for row in range(rows)])


def test_text_is_sorted_by_letters_and_missing_values_are_unknown():
    found = table(place=["north", "", "south", "north", "NaN"]).encoded("place")
    assert found.values == ("north", "south")
    assert found.numbers.tolist() == [0, -1, 1, 0, -1]


def test_numbers_are_sorted_by_size_and_equal_ones_are_one_value():
    found = table(dose=["10", "9", "9.0", "-1", "0.5", ""]).encoded("dose")
    assert found.values == ("-1", "0.5", "9", "10")
    assert found.numbers.tolist() == [3, 2, 2, 0, 1, -1]


def test_long_numbers_stay_apart():
    assert len(table(id=["12345678901234567", "12345678901234568"]).encoded("id").values) == 2


def test_several_columns_are_one_bias_with_the_combinations_that_occur():
    labels = TableLabels.of(
        table(ill=["y", "n", "y", "n"], place=["a", "b", "a", "b"], sex=["m", "f", "f", ""]),
        target="ill", bias="place, sex", attributes=(),
    )  # fmt: skip
    assert labels.bias == "place,sex"
    assert labels.attributes["place,sex"].values == ("a / f", "a / m", "b / f")
    assert labels.attributes["place,sex"].numbers.tolist() == [1, 2, 0, -1]
    assert set(labels.attributes) == {"place,sex", "place", "sex"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"hospital": "ab"}, r"no column 'disease'; its columns are: hospital"),
        ({"desease": "ab"}, r"no column 'disease' \(did you mean 'desease'\?\)"),
        ({"disease": ["1", "2", "ill"]}, r"line 4: disease is 'ill', but other rows have numbers"),
        ({"disease": ["ill", "ill"]}, r"disease has 1 value, 'ill', and needs two or more"),
        ({"disease": ["", ""]}, r"disease has 0 values and needs two"),
        ({"disease": ["a", "", "b", ""]}, r"missing in 2 of 4 rows \(.*line 3, .*line 5\)"),
    ],
)
def test_a_target_that_cannot_be_used_is_refused(columns, message):
    found = table(**{name: list(cells) for name, cells in columns.items()})
    with pytest.raises(CrossbiasError, match=message):
        TableLabels.of(found, target="disease", bias=None, attributes=())


def test_a_bias_of_one_value_is_refused():
    with pytest.raises(CrossbiasError, match="hospital has 1 value, 'a', and needs two"):
        TableLabels.of(
            table(ill=["y", "n"], hospital=["a", ""]), target="ill", bias="hospital", attributes=()
        )


def test_splits_of_a_column_go_by_their_common_names():
    found = table(ill=list("ynyn"), part=["Train", "val", "test", "hospital-b"])
    labels = TableLabels.of(found, target="ill", bias=None, attributes=())
    splits = splits_of(found, labels, column="part", fractions={}, seed=0)
    assert splits == ["train", "validation", "test", "hospital-b"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [(["a", "test"], "part is never 'train'; it is a, test"), (["train", ""], "part is missing")],
)
def test_splits_that_cannot_be_used_are_refused(cells, message):
    found = table(ill=["y", "n"], part=cells)
    labels = TableLabels.of(found, target="ill", bias=None, attributes=())
    with pytest.raises(CrossbiasError, match=message):
        splits_of(found, labels, column="part", fractions={}, seed=0)


@given(
    groups=st.lists(st.sampled_from("abcde"), min_size=1, max_size=200),
    validation=st.sampled_from([0.1, 0.2, 0.25]),
    seed=st.integers(0, 5),
)
def test_every_split_has_its_fraction_of_every_group(groups, validation, seed):
    fractions = {"train": 0.7 - validation, "validation": validation, "test": 0.3}
    splits = split_by_fraction(groups, fractions, seed=seed)
    pairs, totals = Counter(zip(groups, splits, strict=True)), Counter(groups)
    for split, fraction in fractions.items():
        assert abs(splits.count(split) - fraction * len(groups)) < 1
        for group, total in totals.items():
            assert abs(pairs[group, split] - fraction * total) < 2


def test_the_seed_decides_which_samples_and_not_how_many():
    groups = [row % 3 for row in range(60)]
    fractions = {"train": 0.7, "test": 0.3}
    first, again, other = (split_by_fraction(groups, fractions, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert first.count("test") == other.count("test") == 18


def test_fractions_must_have_the_sum_one():
    with pytest.raises(CrossbiasError, match="must sum to 1"):
        split_by_fraction("ab", {"train": 0.5, "test": 0.4}, seed=0)


def test_a_class_without_conflicting_samples_is_reported(caplog):
    """All of the ill, and one of the well, come from hospital a."""
    data = BiasedDataset(
        inputs=torch.zeros(8, 1),
        targets=torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]),
        attributes={"hospital": torch.tensor([0, 0, 0, 0, 0, 1, 1, 1])},
        bias="hospital",
        classes=("ill", "well"),
        name="x-rays",
    )
    with caplog.at_level(logging.WARNING):
        report_missing_conflicts(data)
    assert "x-rays train: no sample of ill conflicts with its usual hospital" in caplog.text


def test_csv_and_parquet_give_the_same_table(tmp_path):
    text = (
        'file,age,place,note\na.png,3,"north, left",\n\nb.png,4.0,south,"two\nlines"\nc.png,,,x\n'
    )
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8-sig")
    (tmp_path / "labels.tsv").write_text("file\tage\na.png\t3\n")
    columns = {
        "file": ["a.png", "b.png", "c.png"],
        "age": [3.0, 4.0, None],
        "place": ["north, left", "south", None],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "labels.parquet")
    found, parquet = (read_table(tmp_path / f"labels.{kind}") for kind in ("csv", "parquet"))
    assert found.where == ["labels.csv line 2", "labels.csv line 4", "labels.csv line 6"]
    assert list(parquet.where) == [f"labels.parquet row {row}" for row in (1, 2, 3)]
    for name in columns:
        one, other = found.encoded(name), parquet.encoded(name)
        assert one.values == other.values
        assert one.numbers.tolist() == other.numbers.tolist()
    tabs = read_table(tmp_path / "labels.tsv").columns
    assert {name: list(cells) for name, cells in tabs.items()} == {"file": ["a.png"], "age": ["3"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels.csv", b"file,ill\na.png\n", "line 2 has 1 cells, but the header has 2"),
        ("labels.csv", b"file,ill\na.png,left, right,y\n", "line 2 has 4 cells"),
        ("labels.csv", b"file,ill,ill\na.png,1,2\n", "the column 'ill' twice"),
        ("labels.csv", b"file,ill\n", "has no rows"),
        ("labels.csv", b"", "has no rows"),
        (
            "my labels.csv",
            "file,ill\na.png,1\nb.png,für\n".encode("latin-1"),
            r"labels.csv line 3 is not UTF-8 text \(byte 0xfc\); .* or convert it: "
            r"iconv -f latin1 -t utf-8 '.*/my labels.csv' > NEW.csv",
        ),
        (
            "labels.csv",
            "file,ill\na.png,1\n".encode("utf-16"),
            r"line 1 is not UTF-8 text \(byte 0xff\); .* iconv -f utf-16 -t utf-8",
        ),
        ("labels.csv", b'file,ill\n"a.png,1\n', "is not a table: .*; save it as CSV again"),
        ("labels.csv", b"file;ill\na.png;1;2\n", "line 2 has 3 cells.*text with a semicolon in"),
        ("labels.parquet", b"file,ill\na.png,1\n", "is not a Parquet file"),
        ("labels.xlsx", b"", "must be a .csv, .tsv or .parquet file; save a spreadsheet as CSV"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CrossbiasError, match=message):
        read_table(tmp_path / name)


def test_a_missing_table_is_refused(tmp_path):
    with pytest.raises(CrossbiasError, match=r"cannot read .*none.csv"):
        read_table(tmp_path / "none.csv")


def test_parquet_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "labels.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CrossbiasError, match=r"pip install 'crossbias\[parquet\]'"):
        read_table(tmp_path / "labels.parquet")


@pytest.fixture
def places(tmp_path):
    """A folder of images, a secret beside it, and links between them."""
    images = tmp_path / "images"
    (images / "inner").mkdir(parents=True)
    (images / "a.png").touch()
    (images / "inner" / "b.png").touch()
    (tmp_path / "secret.png").touch()
    (images / "link.png").symlink_to(tmp_path / "secret.png")
    (images / "good.png").symlink_to(images / "a.png")
    (images / "out").symlink_to(tmp_path)
    return images


def test_files_inside_the_folder_are_found(places):
    names = ["a.png", "inner/b.png", "./a.png", "good.png"]
    assert files_inside(places, names, names) == [places / name for name in names]


def test_the_folder_itself_may_be_a_link(places, tmp_path):
    (tmp_path / "alias").symlink_to(places)
    assert files_inside(tmp_path / "alias", ["a.png"], ["a.png"]) == [tmp_path / "alias" / "a.png"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../secret.png", "leaves the folder"),
        ("inner/../../secret.png", "leaves the folder"),
        ("inner\\..\\..\\secret.png", "leaves the folder"),
        ("/etc/passwd", "is absolute"),
        ("C:\\secret.png", "is absolute"),
        ("link.png", "is a link out of the folder"),
        ("out/secret.png", "is a link out of the folder"),
        ("", "is not the name of a file"),
        ("a.png\0", "is not the name of a file"),
        ("none.png", "is missing"),
        ("inner", "is missing"),
    ],
)
def test_paths_that_leave_the_folder_are_refused_with_their_row(places, name, reason):
    labels = ["labels.csv line 2: good", "labels.csv line 3: bad"]
    with pytest.raises(UnusableImages, match=rf"1 of 2 .*labels.csv line 3: bad {reason}"):
        files_inside(places, ["a.png", name], labels)
