"""The Python code in the pages runs."""

import re
import sys
import types
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["writing-a-method.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    module = types.ModuleType("code_of_a_page")  # importable, because run folders name classes
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks:
        exec(compile(block, page, "exec"), module.__dict__)
    for rule in module.test_contract.pytestmark[0].args[1]:
        rule.check()
