"""Columns of a person's table: which are attributes, bins, groups that stay together, notes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossbias.data.own.columns import chosen_columns, crowded_note
from crossbias.data.own.labels import TableLabels, split_by_fraction, splits_of
from crossbias.data.own.spelling import alone_note, spelling_note
from crossbias.data.own.table import EncodedColumn, LabelTable
from crossbias.data.own.table_files import read_table
from crossbias.errors import CrossbiasError


def table(**columns: list[str]) -> LabelTable:
    rows = len(next(iter(columns.values())))
    return LabelTable("labels.csv", columns, [f"labels.csv line {row + 2}" for row in range(rows)])


ROWS = 120
PEOPLE = table(
    file=[f"{row}.png" for row in range(ROWS)],
    ill=["yn"[row % 2] for row in range(ROWS)],
    sex=["fm"[row // 2 % 2] for row in range(ROWS)],
    stage=["" if row % 7 == 0 else str(row % 4) for row in range(ROWS)],
    age=[str(20 + row % 60) for row in range(ROWS)],  # 60 values
    scanner=["old"] * ROWS,  # one value
    name=[f"patient {row}" for row in range(ROWS)],
    remark=["1" if row % 2 else "seen" for row in range(ROWS)],  # numbers and text
    split=["train" if row % 3 else "test" for row in range(ROWS)],
)


def labels(bias: str | None = None, attributes: list[str] | None = None, **options) -> TableLabels:
    own = {"target": "ill", "bias": bias, "attributes": attributes, "apart": ["file", "split"]}
    return TableLabels.of(PEOPLE, **own | options)


def test_columns_of_few_values_are_attributes_unless_told_otherwise():
    assert set(labels().attributes) == {"sex", "stage"}
    assert set(labels("sex").attributes) == {"sex", "stage"}
    assert set(labels(attributes=[]).attributes) == set()
    assert set(labels("sex", attributes=["age"]).attributes) == {"sex", "age"}


@pytest.mark.parametrize(("values", "rows", "expected"), [(20, 100, 1), (21, 200, 0), (20, 99, 0)])
def test_an_attribute_has_at_most_twenty_values_and_five_rows_for_each(values, rows, expected):
    cells = [f"v{row % values}" for row in range(rows)]
    found = table(ill=["yn"[row % 2] for row in range(rows)], site=cells)
    automatic = TableLabels.of(found, target="ill", bias=None, attributes=None)
    assert len(automatic.attributes) == expected


def test_numbers_are_binned_when_asked_and_the_limit_begins_the_upper_bin():
    ages = table(ill=list("ynyny"), age=["29.9", "30", "39", "40", "n/a"])
    found = TableLabels.of(ages, target="ill", bias="age:30,40", attributes=None)
    assert found.bias == "age:30,40"
    assert found.attributes["age:30,40"].values == ("<30", "30-40", ">=40")
    assert found.attributes["age:30,40"].numbers.tolist() == [0, 1, 1, 2, -1]


def encoded(values: int, rows: int, word: str = "") -> EncodedColumn:
    return table(column=[f"{word}{row % values}" for row in range(rows)]).encoded("column")


@pytest.mark.parametrize(
    ("column", "is_bias", "told"),
    [
        (encoded(21, 2000), True, "age has 21 values in 2,000 rows; bin the numbers, as in age:30"),
        (
            encoded(21, 104),
            False,
            "age has 21 values in 104 rows; bin the numbers, as in age:30",
        ),
        (encoded(21, 104, "p"), True, "age has 21 values in 104 rows; name a column of fewer"),
        (encoded(21, 105, "p"), True, None),  # five rows for each
        (encoded(21, 105), False, None),  # classes may be numbered
        (encoded(20, 20), True, None),
    ],
)
def test_a_target_or_bias_of_very_many_values_is_pointed_out(column, is_bias, told):
    found = crowded_note("age", column, is_bias=is_bias)
    assert found is None if told is None else (found or "").startswith(told)


def test_a_target_and_attributes_are_binned_too():
    found = labels(target="age:50", attributes=["age:30", "40", "sex"])
    assert found.target.values == ("<50", ">=50")
    assert found.target.numbers.tolist() == [int(20 + row % 60 >= 50) for row in range(ROWS)]
    assert list(found.attributes) == ["age:30,40", "sex"]


def test_a_binned_column_is_combined_with_others():
    found = labels("age:30,40,sex")
    assert found.bias == "age:30,40,sex"
    assert found.attributes[found.bias].values[:2] == ("<30 / f", "<30 / m")
    assert set(found.attributes) == {"age:30,40,sex", "age:30,40", "sex", "stage"}


def test_a_name_of_a_column_is_never_taken_apart():
    odd = table(**{"age:30,40": ["1"], "30": ["1"], "age": ["1"]})
    assert chosen_columns("age:30,40", odd) == [("age:30,40", ())]
    assert chosen_columns("age:7,30", odd) == [("age", (7,)), ("30", ())]


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        ("age:old", "'old' is not a number to bin age by; write COLUMN:LIMIT,LIMIT"),
        ("age:40,30", "the limits of age:40,30 must increase"),
        ("sex:30", r"line 2: sex is 'f', which is not a number and has no bin"),
        ("ages:30", r"no column 'ages' \(did you mean 'age' or 'stage'\?\)"),
        ("age:100", "age:100 has 1 value, '<100', and needs two or more"),
    ],
)
def test_bins_that_cannot_be_made_are_refused(bias, message):
    with pytest.raises(CrossbiasError, match=message):
        labels(bias)


def test_a_target_of_two_columns_is_refused():
    with pytest.raises(CrossbiasError, match="the target must be one column, got 'ill,sex'"):
        labels(target="ill,sex")


@given(
    patients=st.lists(st.integers(0, 30), min_size=1, max_size=200),
    seed=st.integers(0, 3),
)
def test_all_rows_of_a_patient_are_in_one_split(patients, seed):
    fractions = {"train": 0.7, "validation": 0.1, "test": 0.2}
    groups = [patient % 3 for patient in patients]
    splits = split_by_fraction(groups, fractions, seed=seed, together=patients)
    assert len(set(zip(patients, splits, strict=True))) == len(set(patients))
    largest = max(Counter(patients).values())
    for split, fraction in fractions.items():
        assert abs(splits.count(split) - fraction * len(patients)) <= 2 * largest


def test_patients_of_one_row_are_split_like_rows():
    groups = [row % 3 for row in range(60)]
    fractions = {"train": 0.7, "test": 0.3}
    alone = split_by_fraction(groups, fractions, seed=4, together=list(range(60)))
    assert alone == split_by_fraction(groups, fractions, seed=4)


def test_rows_without_a_patient_count_alone_and_are_pointed_out():
    rows = table(ill=list("yn") * 20, patient=["7"] * 10 + ["NA"] * 30)
    own = TableLabels.of(rows, target="ill", bias=None, attributes=[])
    splits = splits_of(
        rows, own, column="split", fractions={"train": 0.5, "test": 0.5}, seed=0, group_by="patient"
    )
    assert len(set(splits[:10])) == 1
    assert abs(splits.count("train") - 20) <= 1
    assert alone_note(rows, "patient") == (
        "labels.csv: patient is missing in 30 rows, each of which counts alone"
    )


def test_a_column_of_splits_that_tears_a_patient_apart_is_refused():
    rows = table(
        ill=list("ynynyn"),
        patient=["a", "b", "a", "c", "c", ""],
        split=["train", "train", "test", "test", "elsewhere", "train"],
    )
    own = TableLabels.of(rows, target="ill", bias=None, attributes=[])
    message = (
        r"1 values of patient are in several splits: a in test \(labels.csv line 4\) and train "
        r"\(labels.csv line 2\); correct the column of splits, or leave out group_by"
    )
    with pytest.raises(CrossbiasError, match=message):
        splits_of(rows, own, column="split", fractions={}, seed=0, group_by="patient")


def test_variants_of_values_are_pointed_out_in_one_note_with_counts():
    rows = table(
        ill=["Yes", "no", "yes", "yes"], sex=["m", "NA", "n/a", ""], place=["a", "b", "a", ""]
    )
    assert spelling_note(rows, ["ill", "sex", "place"]) == (
        "labels.csv: ill: 'Yes' (1 row) and 'yes' (2 rows) are kept apart; write them alike if "
        "they mean the same; sex: read as unknown: empty cells (1 row) and 'NA' (1 row) and 'n/a' "
        "(1 row)"
    )
    assert rows.encoded("sex").numbers.tolist() == [0, -1, -1, -1]
    assert spelling_note(rows, ["place"]) is None


@pytest.mark.parametrize(("separator", "word"), [(";", "semicolon"), ("\t", "tab")])
def test_tables_with_another_separator_are_read_and_it_is_said(tmp_path, separator, word):
    lines = ["file,age,note", 'a.png,3,"x, y"', "b.png,4,"]
    text = "\n".join(lines).replace(",", separator).replace(f"x{separator}", "x,")
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8-sig")
    found = read_table(tmp_path / "labels.csv")
    assert found.columns == {
        "file": ["a.png", "b.png"], "age": ["3", "4"], "note": ["x, y", ""],
    }  # fmt: skip
    assert found.note == f"{tmp_path / 'labels.csv'} is read as separated by {word}s"


def test_the_usual_separator_is_not_mentioned_and_wins_where_two_fit(tmp_path):
    (tmp_path / "labels.csv").write_text("\nfile,a;b\nx.png,1;2\n")
    found = read_table(tmp_path / "labels.csv")
    assert found.columns == {"file": ["x.png"], "a;b": ["1;2"]}
    assert found.note == ""
