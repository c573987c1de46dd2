"""The page about networks has every signature, and its code runs."""

import inspect
import re
from pathlib import Path

from crossbias.networks import NETWORKS

PAGE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()


def test_every_network_is_there_with_its_signature():
    rows = dict(re.findall(r"^\| `([\w-]+)` \| `(.*)` \|$", PAGE, re.MULTILINE))
    expected = {}
    for name, factory in NETWORKS.items():
        parameters = inspect.signature(factory).parameters.values()
        keywords = [
            p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters
        ]
        expected[name] = f"{name.replace('-', '_')}({', '.join(keywords)})"
    assert rows == expected


def test_the_code_of_the_page_runs(capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "networks.md", "exec"), names)
    assert capsys.readouterr().out.count("torch.Size([4, 32, 28, 28])") == 1
    assert names["network"].num_features == 16
