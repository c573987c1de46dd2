"""The examples run, for two steps."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs_for_two_steps(name, tmp_path):
    command = [sys.executable, str(EXAMPLES / name), "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir()), "an example without a folder leaves nothing behind"


def test_there_are_examples_of_both_uses():
    texts = "".join(path.read_text() for path in EXAMPLES.glob("*.py"))
    assert "crossbias.fit(" in texts
    assert "from crossbias.functional import" in texts
