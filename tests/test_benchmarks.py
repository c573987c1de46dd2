"""The programs of benchmarks/ can be imported, and every result belongs to one of them."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_can_be_imported(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    assert importlib.import_module(f"benchmarks.{name}").__doc__


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=str)
def test_a_result_is_of_a_program_that_exists(path):
    assert json.loads(path.read_text())["benchmark"] in PROGRAMS
