"""docs/gates.md: its gates can be read, its metrics are all there, its commands run."""

import re
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

from crossbias.answers.gates import METRICS, read_gate
from crossbias.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gates.md").read_text()


def commands(text: str) -> list[str]:
    """Commands of `crossbias verify`, whose lines may go on."""
    return re.findall(r"crossbias verify .*", re.sub(r"\\\n\s*", "", text))


def test_every_gate_of_the_pages_can_be_read() -> None:
    pages = [PAGE, (ROOT / "README.md").read_text(), (ROOT / "docs" / "verify.md").read_text()]
    gates = [gate for page in pages for gate in re.findall(r'--require "([^"]+)"', page)]
    assert len(gates) >= 9
    for gate in gates:
        assert read_gate(gate).metric in METRICS


def test_every_metric_is_on_the_page_and_no_other() -> None:
    table = PAGE.split("| metric |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(METRICS)


def test_the_workflow_is_yaml_and_uploads_what_the_command_writes() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["gates"]["steps"]
    (gates,) = [step["run"] for step in steps if step.get("name") == "Gates"]
    (command,) = commands(gates)
    written = [command.split()[at + 1] for at, word in enumerate(command.split())
               if word in ("-o", "--junit")]  # fmt: skip
    (upload,) = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    assert upload["if"] == "always()"
    assert sorted(upload["with"]["path"].split()) == sorted(written)


@pytest.mark.parametrize("command", commands(PAGE))
def test_the_commands_of_the_page_run(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    draw, rows = np.random.default_rng(0), ["finding,p,hospital,sex,patient"]
    for number in range(400):
        ill = draw.random() < 0.5
        score = min(0.99, max(0.01, draw.normal(0.8 if ill else 0.2, 0.05)))
        site, sex = draw.choice(["north", "south"]), draw.choice(["f", "m"])
        rows.append(f"{'pneumonia' if ill else 'healthy'},{score:.3f},{site},{sex},{number // 2}")
    monkeypatch.chdir(tmp_path)
    Path("predictions.csv").write_text("\n".join(rows))
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    if "--junit" in command:
        root = ElementTree.parse("gates.xml").getroot()
        assert root.attrib["failures"] == "0"
        assert int(root.attrib["tests"]) == command.count("--require")
