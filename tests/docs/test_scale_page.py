"""The page about scale: its rates are those of the results, its plans follow from them."""

import json
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/scale.md").read_text()
PIXELS = 3 * 224 * 224
FILE, LAPTOP, DISK = 100_000, 1_000, 10e9  # what the page assumes


def found(name: str, device: str = "cpu") -> dict:
    return json.loads((ROOT / f"benchmarks/results/{name}-{device}.json").read_text())["found"]


def rates() -> dict[str, float]:
    feeding = found("feeding")
    images, seconds = feeding["images"], feeding["seconds"]
    return {
        "store": images / feeding["building_seconds"] / 2,
        "read": images / seconds["cached"],
        "decode": images / seconds["decoding"] / 2,
    }


def test_the_rates_are_those_of_the_results():
    measured, hashing = rates(), found("hashing")["resnet18"]
    answers = found("million_answers")
    assert f"{measured['store']:.0f} images a second for each core" in PAGE
    assert f"{round(measured['read'], -2):,.0f} images a second for each process" in PAGE
    assert f"{measured['decode']:.0f} images a second for each worker" in PAGE
    for name in ("resnet18", "resnet50"):
        fed = found(f"device_feeding-{name}", "cuda")
        assert f"{fed['fed']:,} images a second on one H200, bf16" in PAGE
        assert f"{fed['fed / bare']:.2f} of " in PAGE
        assert f"{fed['decoded']:,}" in PAGE
    speed = hashing["megabytes"] / hashing["hashing_seconds"] / 1000
    assert math.floor(10 * speed) / 10 == float(re.search(r"([\d.]+) GB a second", PAGE)[1])
    rows = answers["rows"] / answers["commands"][0]["wall seconds"]
    assert f"{round(rows, -3):,.0f} rows a second" in PAGE


def plan(title: str) -> list[str]:
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {title}"))
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def number(cell: str) -> float:
    """A number with its unit, in bytes or seconds."""
    units = {"GB": 1e9, "TB": 1e12, "s": 1, "min": 60, "h": 3600}
    value, _, unit = cell.partition(" ")
    return float(value.replace(",", "")) * units.get(unit, 1)


def test_the_plans_follow_from_the_rates():
    sizes = [number(cell) for cell in plan("images, n")]
    pairs = [[number(cell) for cell in cells.split(", ")] for cells in plan("cores, GPUs")]
    measured = found("device_feeding-resnet50", "cuda")["fed"]
    machines = [(*pair, g) for pair, g in zip(pairs, [LAPTOP, *[measured] * 3], strict=True)]
    formulas = {
        "files": lambda n, c, p, g: n * FILE,
        "pixels": lambda n, c, p, g: n * PIXELS,
        "shards": lambda n, c, p, g: math.ceil(n / (2**31 // PIXELS)),
        "decoding": lambda n, c, p, g: n / (rates()["store"] * c),
        "reading the files": lambda n, c, p, g: n * FILE / DISK,
        "one pass": lambda n, c, p, g: n / (g * p),
        "the disk": lambda n, c, p, g: n * PIXELS / DISK,
        "GPU hours of 30": lambda n, c, p, g: 30 * n / g / 3600,
        "features of": lambda n, c, p, g: 4 * n * 2048,
        "GPU hours of the": lambda n, c, p, g: n / g / 3600,
    }
    for title, formula in formulas.items():
        for cell, n, machine in zip(plan(title), sizes, machines, strict=True):
            if cell != "(local)":
                expected = formula(n, *machine)
                assert number(cell) == pytest.approx(expected, rel=0.1), (title, cell)


def test_the_code_of_the_page_runs():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {}
    exec(compile(block, "scale.md", "exec"), names)
    assert names["vectors"].inputs.ndim == 2
    assert names["head"] is not None
