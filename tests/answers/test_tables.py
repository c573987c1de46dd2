"""The same answers as CSV, TSV, Parquet, data frame or columns give the same findings."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from crossbias.answers import verify_table
from crossbias.answers.reading import answer_table
from crossbias.answers.samples import NamedColumns, Samples, samples_of
from crossbias.answers.verification import Verification
from crossbias.errors import CrossbiasError

CHOSEN = {"target": "y", "prediction": "p", "bias": ["size", "texture"], "positive": "malignant"}


def numbers(found: Verification) -> dict:
    return {name: part for name, part in found.to_json().items() if name != "source"}


@pytest.fixture(scope="module")
def expected(tumors: pd.DataFrame) -> dict:
    return numbers(verify_table(tumors.drop(columns="split"), **CHOSEN))


def test_a_file_of_any_format_gives_the_same(
    tumors: pd.DataFrame, expected: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tumors.drop(columns="split")
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "semicolon.csv", index=False, sep=";", encoding="utf-8-sig")
    table.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    table.to_csv(tmp_path / "index.csv")  # a column without a name
    table.to_parquet(tmp_path / "a.parquet")
    for file in ("a.csv", "semicolon.csv", "a.tsv", "index.csv", "a.parquet"):
        assert numbers(verify_table(tmp_path / file, **CHOSEN)) == expected, file
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real(name)
    )
    assert numbers(verify_table(str(tmp_path / "a.csv"), **CHOSEN)) == expected
    with pytest.raises(CrossbiasError, match=r"crossbias\[parquet\]"):
        verify_table(tmp_path / "a.parquet", **CHOSEN)


def test_columns_may_be_arrays_tensors_or_lists(tumors: pd.DataFrame, expected: dict) -> None:
    columns = {
        "y": tumors["y"].tolist(),
        "p": torch.tensor(tumors["p"].to_numpy()),
        "size": np.array(tumors["size"]),
        "texture": tumors["texture"],
    }
    assert numbers(verify_table(columns, **CHOSEN)) == expected


def test_probabilities_of_each_class_by_pattern_or_in_order(
    tumors: pd.DataFrame, expected: dict
) -> None:
    table = tumors.drop(columns=["split", "p"])
    table["p_malignant"], table["p_benign"] = tumors["p"], 1 - tumors["p"]
    ways = [
        {"prediction": "p_*"},
        {"prediction": "p_benign,p_malignant"},
    ]
    for way in ways:
        (model,) = verify_table(table, **CHOSEN | way).to_json()["models"]
        first = expected["models"][0]["numbers"]
        assert model["numbers"]["auc"] == first["auc"]
        assert model["numbers"]["accuracy"] == first["accuracy"]
    swapped = CHOSEN | {"prediction": "p_malignant,p_benign", "classes": ["malignant", "benign"]}
    (model,) = verify_table(table, **swapped).to_json()["models"]
    assert model["numbers"]["accuracy"] == expected["models"][0]["numbers"]["accuracy"]


def test_numbers_are_the_same_class_however_they_are_written() -> None:
    found = verify_table({"y": ["0", "1", "1.0"], "p": [0, 1.0, 0]}, target="y", prediction="p")
    assert found.first.metrics.classes == ("0", "1")
    assert found.first.numbers["accuracy"].value == pytest.approx(2 / 3)


def test_identifiers_keep_their_zeros_and_rows_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,y,p\n007,a,a\n7,b,a\n07,b,b\n")
    (tmp_path / "b.csv").write_text("id,p\n07,a\n007,a\n7,b\n")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    found = verify_table(files, target="y", prediction="p", id="id")
    values = {Path(name).name: m.numbers["accuracy"].value for name, m in found.models.items()}
    assert values == pytest.approx({"a.csv": 2 / 3, "b.csv": 2 / 3})
    assert found.gains[0].gain.value == pytest.approx(0)
    assert found.gains[0].test is not None
    assert found.gains[0].test[:2] == (1, 1)


def test_the_threshold_is_chosen_on_validation_rows_and_judged_on_test_rows(
    tumors: pd.DataFrame,
) -> None:
    found = verify_table(
        tumors, **CHOSEN, split_column="split", threshold="sensitivity>=.9"
    )  # fmt: skip
    detection = found.first.metrics.detection
    assert detection is not None
    assert detection.positive.threshold is not None
    held = tumors[(tumors["split"] == "validation") & (tumors["y"] == "malignant")]
    value = np.sort(held["p"])[::-1][int(np.ceil(0.9 * len(held))) - 1]
    assert detection.positive.threshold.value == value
    test = tumors[tumors["split"] == "test"]
    assert found.samples == len(test)
    ill = test["y"] == "malignant"
    assert detection.overall.sensitivity.value == pytest.approx((test["p"][ill] >= value).mean())
    with pytest.raises(CrossbiasError, match="cannot be judged and choose the threshold at once"):
        verify_table(tumors, **CHOSEN, split_column="split", validation="test", threshold=".5")
    with pytest.raises(CrossbiasError, match="is chosen on a validation split, and there is none"):
        verify_table(tumors, **CHOSEN, threshold="sensitivity>=.9")


def test_aligned_groups_are_given_counted_or_unknown(tumors: pd.DataFrame) -> None:
    unknown = verify_table(tumors, **CHOSEN).first.attributes[("size",)].metrics
    assert unknown.aligned is None
    assert unknown.conflicting is None
    pairs = {"malignant": "large", "benign": "small"}
    right = (tumors["p"] >= 0.5) == (tumors["y"] == "malignant")
    aligned = tumors["size"] == tumors["y"].map(pairs)
    ways = [
        {"aligned": pairs},
        {"training": tumors},
        {"split_column": "split", "split": "validation", "validation": "other"},
    ]
    for way in ways[:2]:
        metrics = verify_table(tumors, **CHOSEN, **way).first.attributes[("size",)].metrics
        assert metrics.aligned is not None
        assert metrics.conflicting is not None
        assert metrics.aligned.value == pytest.approx(right[aligned].mean())
        assert metrics.conflicting.n == (~aligned).sum()
    split = tumors.assign(split=np.where(tumors["split"] == "validation", "train", "test"))
    metrics = verify_table(split, **CHOSEN, split_column="split")
    found = metrics.first.attributes[("size",)].metrics.aligned
    assert found is not None
    assert found.n == (aligned & (split["split"] == "test")).sum()


def test_a_table_says_what_it_holds(tumors: pd.DataFrame) -> None:
    assert repr(answer_table(tumors[["y", "p"]])) == "<569 rows of the table: y, p>"
    assert repr(verify_table(tumors, **CHOSEN)) == "<569 samples of the table: p>"
    assert "<iframe" in verify_table(tumors, **CHOSEN)._repr_html_()


def test_the_numbers_over_all_samples_do_not_depend_on_the_attributes(tumors: pd.DataFrame) -> None:
    chosen = CHOSEN | {"bias": (), "cluster": "patient", "weight": "weight"}
    alone = verify_table(tumors, **chosen).first
    beside = verify_table(tumors, **chosen | {"bias": "size"}).first
    assert alone.metrics == beside.metrics
    assert alone.numbers == beside.numbers


def test_numbers_are_binned(tumors: pd.DataFrame) -> None:
    ages = np.arange(len(tumors)) % 80
    table = tumors.assign(age=np.where(ages < 5, np.nan, ages))
    named = pd.cut(table["age"], [0, 30, 40, 100], right=False, labels=["<30", "30-40", ">=40"])
    chosen = CHOSEN | {"bias": ["age:30,40", "age:30,40,size"]}
    found = verify_table(table, **chosen, training=table).first.attributes
    by_hand = verify_table(
        table.assign(age=named.astype(object)), **CHOSEN | {"bias": ["age", "age,size"]},
        training=table.assign(age=named.astype(object)),
    ).first.attributes  # fmt: skip
    assert list(found) == [("age:30,40",), ("age:30,40", "size")]
    for one, other in zip(found.values(), by_hand.values(), strict=True):
        values = {each.value: each for each in other.values}
        assert {each.value: each for each in one.values} == values
        assert one.metrics.aligned == other.metrics.aligned


def leaves(part: object) -> list[object]:
    """All numbers and words of nested dictionaries and lists, in order."""
    if isinstance(part, dict):
        return [leaf for each in part.values() for leaf in leaves(each)]
    if isinstance(part, list | tuple):
        return [leaf for each in part for leaf in leaves(each)]
    return [part]


def test_the_order_of_rows_does_not_matter_with_clusters(tumors: pd.DataFrame) -> None:
    chosen = CHOSEN | {"prediction": ["p", "q"], "cluster": "patient", "weight": "weight"}
    table = tumors.drop(columns="split")
    first, mixed = (
        leaves(numbers(verify_table(each, **chosen)))
        for each in (table, table.sample(frac=1, random_state=0))
    )
    assert len(first) > 100
    for one, other in zip(first, mixed, strict=True):
        assert other == (pytest.approx(one, abs=1e-9) if isinstance(one, float) else one)


def test_samples_of_a_cluster_are_put_side_by_side(tumors: pd.DataFrame) -> None:
    mixed = tumors.sample(frac=1, random_state=0)
    named = NamedColumns(target="y", prediction=("answer",), bias=("size",), cluster="patient")
    samples = samples_of([answer_table(mixed)], named)
    side = samples.by_cluster()
    assert (side.cluster.diff() >= 0).all()
    assert not (samples.cluster.diff() >= 0).all()

    def rows(found: Samples) -> list[tuple[int, ...]]:
        parts = found.target, found.attributes[("size",)].numbers, found.cluster
        return sorted(zip(*(each.tolist() for each in parts), strict=True))

    assert rows(side) == rows(samples)
