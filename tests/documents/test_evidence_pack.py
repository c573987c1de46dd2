"""Evidence is whole, can be checked by others, and is refused for a run that is not sound."""

import csv
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from crossbias import CrossbiasError
from crossbias.answers import verify_table
from crossbias.documents import write_evidence
from crossbias.runs import read_run

from .conftest import CLASSES, HOSPITALS


@pytest.fixture(scope="module")
def evidence(run, tmp_path_factory):
    return write_evidence(run, tmp_path_factory.mktemp("auditor") / "evidence")


def test_sha256sum_accepts_it_and_notices_a_change(evidence, tmp_path):
    copy = shutil.copytree(evidence, tmp_path / "copy")
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=copy, check=False).returncode == 0
    listed = {line.split("  ")[1] for line in (copy / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in copy.iterdir()} - {"SHA256SUMS"}
    (copy / "metrics.json").write_text("{}")
    assert subprocess.run(check, cwd=copy, check=False, capture_output=True).returncode == 1


def test_files_of_the_run_are_copied_as_they_are_and_its_hashes_cover_the_weights(run, evidence):
    hashes = json.loads((evidence / "run-sha256.json").read_text())["sha256"]
    for name in ("config.json", "metrics.json", "predictions.npz", "log.jsonl"):
        content = (evidence / name).read_bytes()
        assert content == (run / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == hashes[name]
    weights = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    assert hashes["model.safetensors"] == weights
    assert "<html" in (evidence / "report.html").read_text()
    assert "model-index" in (evidence / "card.md").read_text()


def test_the_table_of_predictions_gives_the_accuracy_again(run, evidence):
    with open(evidence / "predictions-test.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    finished = read_run(run)
    answers = finished.predictions["test"]
    assert [row["target"] for row in rows] == [CLASSES[place] for place in answers.target]
    right = [row["target"] == row["answer"] for row in rows]
    assert np.mean(right) == pytest.approx(finished.test.overall.value)
    found = np.array([[float(row[f"p_{name}"]) for name in CLASSES] for row in rows])
    np.testing.assert_array_equal(found, answers.probabilities.double().numpy())
    # No spreadsheet runs a name, an unknown value is empty, and no column is there twice.
    names = {-1: "", 0: f"'{HOSPITALS[0]}", 1: HOSPITALS[1]}
    column = answers.attributes["hospital"].tolist()
    assert [row["hospital"] for row in rows] == [names[value] for value in column]
    assert {row["attribute id"] for row in rows} == {"x", "y"}
    assert [row["id"] for row in rows] == [str(index) for index in answers.index.tolist()]


def test_verify_gives_the_numbers_of_the_run_from_the_table(run, evidence):
    found = verify_table(
        evidence / "predictions-test.csv",
        target="target",
        prediction="p_*",
        classes=CLASSES,
        bias="hospital",
        aligned={CLASSES[0]: f"'{HOSPITALS[0]}", CLASSES[1]: HOSPITALS[1]},
    )
    again, metrics = found.first.attributes["hospital",].metrics, read_run(run).test
    for name in ("overall", "aligned", "conflicting", "unbiased", "equalized_odds", "calibration"):
        assert getattr(again, name) == pytest.approx(getattr(metrics, name), abs=1e-6), name
    assert again.worst_group.accuracy == pytest.approx(metrics.worst_group.accuracy, abs=1e-6)


@pytest.mark.parametrize("name", ["model.safetensors", "checkpoint.pt", "predictions.npz"])
def test_a_damaged_run_is_refused_and_nothing_is_left(run, tmp_path, name):
    copy = shutil.copytree(run, tmp_path / "run")
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(CrossbiasError, match=f"{name} is not as the run wrote it"):
        write_evidence(copy, tmp_path / "evidence")
    assert list(tmp_path.iterdir()) == [copy]


def test_an_unfinished_run_is_refused(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "done").unlink()
    with pytest.raises(CrossbiasError, match="is not finished; finish it with"):
        write_evidence(copy, tmp_path / "evidence")
    with pytest.raises(CrossbiasError, match="is not a run folder"):
        write_evidence(tmp_path / "absent", tmp_path / "evidence")


def test_a_folder_with_something_in_it_is_kept(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CrossbiasError, match="is not an empty folder"):
        write_evidence(run, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_failure_in_the_middle_leaves_nothing(run, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("crossbias.documents.evidence_pack._write_manifest", full)
    with pytest.raises(CrossbiasError, match=r"cannot write .*: No space left on device"):
        write_evidence(run, tmp_path / "evidence")
    assert not list(Path(tmp_path).iterdir())
