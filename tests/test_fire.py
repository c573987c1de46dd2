"""The campaign of benchmarks/fire/: a few tries of it, and that it can tell held from failed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.fire import subjects
from benchmarks.fire.forks import Outcome
from benchmarks.fire.mutations import mutated
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]

PROGRAM = """
import json, sys, torch
from pathlib import Path
from benchmarks.fire import subjects
from benchmarks.fire.__main__ import campaign

torch.set_num_threads(1)
subjects.METHODS = {"erm": ()}
kinds = ["kills at every file event", "races", "damaged TOML"]
print(json.dumps(campaign(kinds, Path(sys.argv[1]), tries=1)))
"""


def test_some_tries_of_the_campaign_hold(program, tmp_path):
    done = program.run(PROGRAM, ["-c", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 3
    for counts in found.values():
        assert counts["tried"] == counts["held"] == 1, counts


@pytest.mark.slow
def test_a_minute_of_the_campaign_holds():
    command = [sys.executable, "-m", "benchmarks.fire", "--minutes", "1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


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


def test_a_changed_number_an_added_file_and_a_lost_line_are_differences(tmp_path):
    for name in ("whole", "other"):
        folder = subjects.RunFolder(tmp_path / name)
        folder.path.mkdir()
        folder.metrics.write_text('{"accuracy": 1}')
        folder.append({"stage": "final", "epoch": 1, "seconds": len(name), "losses": {"loss": 2}})
        folder.finish()
    whole, other = tmp_path / "whole", tmp_path / "other"
    assert subjects.difference(whole, other) is None
    (other / "log.jsonl").write_text("")
    assert subjects.difference(whole, other) == "log.jsonl has other epochs or losses"
    (other / "metrics.json").write_text('{"accuracy": 2}')
    assert subjects.difference(whole, other) == "metrics.json has other bits"
    (other / "new").touch()
    assert subjects.difference(whole, other) == "files that only one has: new"


@given(st.data())
def test_damage_changes_a_copy(data):
    value = {"a": [1, {"b": 2}], "c": None}
    before = json.dumps(value)
    mutated(value, data)
    assert json.dumps(value) == before
