"""BAR and the chest X-rays as they are on disk: counts, labels, no patient in two splits."""

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from crossbias.data import create_source
from crossbias.data.inspect.checking import check_source

ROOT = Path(os.environ["CROSSBIAS_DATA"])


def test_bar_has_its_published_counts_and_no_broken_file():
    check = check_source(create_source("bar"), root=ROOT)
    assert check.errors == []
    assert check.sizes == {"train": 1941, "test": 654}
    assert check.compared == 14


def test_chest_x_rays_are_split_by_patient_and_leave_undecided_findings_out():
    source = create_source("covid-cxr")
    with open(ROOT / "covid-cxr/metadata.csv", newline="", encoding="utf-8") as file:
        rows = {row["filename"]: row for row in csv.DictReader(file)}
    patients, total = {}, 0
    for split in ("train", "validation", "test"):
        listing = source.listed(split, root=ROOT, seed=0)
        found = [rows[file.name] for file in listing.files]
        patients[split] = {row["patientid"] for row in found}
        positive = ["COVID-19" in row["finding"] for row in found]
        assert listing.targets == positive
        assert Counter(row["finding"] for row in found)["todo"] == 0
        total += len(found)
    decided = [row for row in rows.values() if row["finding"] not in ("todo", "Unknown", "")]
    assert total == len(decided)
    assert not patients["train"] & patients["test"]
    assert not patients["train"] & patients["validation"]
    assert not patients["validation"] & patients["test"]


@pytest.mark.parametrize("split", ["train", "test"])
def test_x_rays_are_read_as_grey_squares(split, tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path))
    data = create_source("covid-cxr").load(split, root=ROOT)
    assert data.inputs.shape[1:] == (1, 256, 256)
    assert 60 < data.inputs.float().mean() < 200
