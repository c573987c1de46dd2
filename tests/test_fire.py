"""The campaign of benchmarks/fire/: a few tries of it, and that it can tell held from failed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.fire import subjects
from benchmarks.fire.__main__ import KINDS
from benchmarks.fire.forks import Outcome
from benchmarks.fire.mutations import mutated
from hypothesis import given
from hypothesis import strategies as st

import crossbias
from crossbias import TrainConfig
from crossbias.data.memory_maps import CACHE_VARIABLE
from crossbias.methods import ERM
from crossbias.registry import METHODS
from crossbias.testing import tiny_data, tiny_network

CHEAP = [kind for kind in KINDS if kind != "kills of sweeps"]  # whose processes import torch
PROGRAM = """
import json, sys, torch
from pathlib import Path
from benchmarks.fire.__main__ import campaign

torch.set_num_threads(1)
kinds = json.loads(sys.argv[2])
print(json.dumps(campaign(kinds, Path(sys.argv[1]), share=1e-3, methods=("erm",))))
"""


def test_one_try_of_every_cheap_kind_holds(program, tmp_path):
    """Kills, a power cut, a full disk, damages, intrusions and races, in a fork each."""
    environment = {CACHE_VARIABLE: str(tmp_path / "cache")}
    (tmp_path / "arena").mkdir()
    arguments = ["-c", str(tmp_path / "arena"), json.dumps(CHEAP)]
    done = program.run(PROGRAM, arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == CHEAP
    for kind, counts in found.items():
        assert counts["failed"] == 0, (kind, counts)
        assert counts["tried"] == 1 or counts.get("skipped"), (kind, counts)


def test_every_method_is_under_fire():
    assert subjects.METHODS.keys() == METHODS.keys()


@pytest.mark.parametrize(
    ("code", "err", "refused"),
    [
        (2, "crossbias: the run is damaged\n", True),
        (2, "warning: something\ncrossbias: the run is damaged\n", True),
        (0, "crossbias: no\n", False),
        (1, "", False),
        (70, "Traceback (most recent call last):\n", False),
        (-11, "", False),
    ],
)
def test_a_refusal_is_one_line(code, err, refused):
    assert Outcome(code, "", err).refused == refused


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fire") / "whole"
    data, config = tiny_data(), TrainConfig(epochs=2, batch_size=16, device="cpu")
    result = crossbias.fit(
        ERM(), data, network=tiny_network(), config=config, folder=folder, progress=False
    )
    result.evaluate(replace(data, split="test"))
    return folder


def test_a_copy_is_no_difference_and_a_damaged_one_is_refused(whole, tmp_path):
    other = Path(shutil.copytree(whole, tmp_path / "other"))
    assert subjects.difference(whole, other) is None
    (other / "labels.npz").unlink()
    assert "labels.npz does not exist" in subjects.difference(whole, other)


@pytest.mark.parametrize(
    ("name", "lines", "difference"),
    [
        ("log.jsonl", slice(1), "log.jsonl has other epochs or losses"),
        ("stages/new.pt", slice(0), "files that only one has: stages/new.pt"),
    ],
)
def test_a_lost_line_and_an_added_file_are_differences(whole, tmp_path, name, lines, difference):
    other = Path(shutil.copytree(whole, tmp_path / "other"))
    file = other / name
    file.parent.mkdir(exist_ok=True)
    kept = file.read_text().splitlines(keepends=True)[lines] if file.exists() else []
    file.write_text("".join(kept))
    subjects.RunFolder(other).finish()
    assert subjects.difference(whole, other) == difference


def test_other_weights_are_a_difference(whole, tmp_path):
    folder = subjects.RunFolder(shutil.copytree(whole, tmp_path / "other"))
    folder.save_model({name: value + 1 for name, value in folder.load_model().items()})
    folder.finish()
    assert subjects.difference(whole, folder.path) == "model.safetensors has other bits"


@given(st.data())
def test_damage_changes_a_copy(data):
    value = {"a": [1, {"b": 2}], "c": None}
    before = json.dumps(value)
    mutated(value, data)
    assert json.dumps(value) == before
