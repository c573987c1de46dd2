"""What the page "Which method?" says of our own results, in its text, is what the results say."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
TEXT = " ".join((ROOT / "docs" / "which-method.md").read_text().split())

COSTS = TEXT.split("## What may it cost?")[1]

PHOTOGRAPHS = ("BAR, color .95", "BAR, color .98")
WATERMARKS = ("X-rays, watermark .90", "X-rays, watermark .95")
PLANTED = PHOTOGRAPHS + WATERMARKS
SOURCE = "X-rays by source"

Means = Callable[[str, str, str], float]


def means_of(name: str) -> Means:
    """The mean of a table by measure, row and column."""
    cells = json.loads((RESULTS / "tables" / f"{name}.json").read_text())["cells"]
    found = {(cell["metric"], cell["row"], cell["column"]): cell for cell in cells}
    return lambda metric, row, column: found[metric, row, column]["mean"]


def gains(name: str, rows: Sequence[str], columns: Sequence[str]) -> tuple[str, str]:
    """The smallest and the largest gain over plain training on conflicting samples, in words."""
    mean = means_of(name)
    differences = [
        mean("conflicting", row, column) - mean("conflicting", "erm", column)
        for row in rows
        for column in columns
    ]
    return tuple(f"{round(each)}" for each in (min(differences), max(differences)))


FROM_SCRATCH, PRETRAINED = "shortcuts", "shortcuts-pretrained"


@pytest.mark.parametrize(
    ("sentence", "name", "rows", "columns"),
    [
        (
            "`group-balanced` and `group-dro` gain {} to {} points over plain training",
            *(FROM_SCRATCH, ("group-balanced", "group-dro"), PLANTED),
        ),
        ("`end` and `lnl` at their defaults {} to {} |", FROM_SCRATCH, ("end", "lnl"), PLANTED),
        ("`dfr` gains {} to {} points, ", FROM_SCRATCH, ("dfr",), PLANTED),
        ("`jtt` at its defaults {} to {} |", FROM_SCRATCH, ("jtt",), PLANTED),
        (
            "{} to {} points more than plain training on real images with a planted cue",
            *(FROM_SCRATCH, ("pgd",), PLANTED),
        ),
        (
            "{} to {} points more than plain training on photographs, of six classes",
            *(FROM_SCRATCH, ("lff", "disent", "ie"), PHOTOGRAPHS),
        ),
        (
            "on X-rays, with two classes, {} to {} points",
            *(FROM_SCRATCH, ("lff", "disent", "ie"), WATERMARKS),
        ),
        (
            "`pgd`, `lff`, `disent` and `ie` gain {} to {} points on the photographs",
            *(PRETRAINED, ("pgd", "lff", "disent", "ie"), PHOTOGRAPHS),
        ),
        (
            "On the X-rays with a watermark `pgd`, `lff` and `disent` gain {} to {},",
            *(PRETRAINED, ("pgd", "lff", "disent"), WATERMARKS),
        ),
        ("`aflite` {} to {}, and `group-balanced`, which", PRETRAINED, ("aflite",), WATERMARKS),
        (
            "and `group-balanced`, which knows the bias, {} to {}.",
            *(PRETRAINED, ("group-balanced",), PLANTED),
        ),
    ],
)
def test_gains_are_those_of_our_benchmark(sentence, name, rows, columns):
    assert sentence.format(*gains(name, rows, columns)) in TEXT


def test_the_class_average_that_falls_is_named():
    assert "`ie` is below plain training in the class average with the pretrained network" in TEXT
    mean = means_of(PRETRAINED)
    assert all(
        mean("class average", "ie", column) < mean("class average", "erm", column)
        for column in WATERMARKS
    )


def test_what_is_lost_where_there_is_no_shortcut_is_named():
    scratch, pretrained = (
        round(mean("overall", "erm", SOURCE) - mean("overall", "aflite", SOURCE))
        for mean in map(means_of, (FROM_SCRATCH, PRETRAINED))
    )
    lost = f"`aflite` loses {scratch} points overall from scratch and {pretrained} pretrained"
    assert lost in TEXT


def test_numbers_on_the_papers_data_are_those_of_the_tables():
    lnl, rebias, pgd = map(means_of, ("lnl-figure-4", "rebias-table-1", "pgd-table-1"))
    ours, plain = (lnl("accuracy", row, "variance .020") for row in ("lnl", "erm"))
    assert f"`lnl` {ours:.1f} where plain training has {plain:.1f} on all test images" in TEXT
    pairs = [
        [rebias("unbiased", row, f"rho {rho}") for row in ("rebias", "erm")]
        for rho in (".999", ".997", ".995", ".990")
    ]
    first, *others, last = (f"{ours:.1f} against {plain:.1f}" for ours, plain in pairs)
    assert f"`rebias` {', '.join((first, *others))} and {last} on Biased MNIST" in TEXT
    ours, plain = (pgd("minority", row, "Colored 99.5%") for row in ("pgd", "erm"))
    assert f"ours: {ours:.1f} where plain training has {plain:.1f} (Colored MNIST" in TEXT


def test_numbers_with_wrong_labels_are_those_of_the_table():
    mean = means_of("pgd-table-2")
    plain, pgd, denoised = (
        " / ".join(f"{mean(kind, row, '10% wrong'):.1f}" for kind in ("majority", "minority"))
        for row in ("erm", "pgd", "denoised")
    )
    assert re.search(rf"\| plain training \|[^|]*\|[^|]*\| {plain} \| \|", TEXT)
    assert re.search(rf"\| `pgd` \|[^|]*\|[^|]*\| {pgd} \| {denoised} \|", TEXT)


@pytest.mark.parametrize(
    ("methods", "rows"),
    [
        (("class-balanced", "group-balanced"), None),
        (("group-dro", "end", "hex"), None),
        (("rubi", "rebias"), None),
        (("learned-mixin",), None),
        (("lnl", "lnl-color", "blindeye", "grl"), "`lnl`, `lnl` with colors, `blindeye`, `grl`"),
        (("disent", "lff"), None),
        (("ie",), "`ie`, while it guides"),
        (
            ("aflite", "denoised", "repair", "jtt", "pgd"),
            "`aflite`, `denoised`, `repair`, `jtt`, `pgd`, all of it",
        ),
    ],
)
def test_costs_are_those_of_the_benchmark(methods, rows):
    costs = json.loads((RESULTS / "cost-cpu.json").read_text())["found"]
    names = rows or ", ".join(f"`{name}`" for name in methods)
    found = re.search(rf"\| {re.escape(names)} \| ([\d., ]+) \|", COSTS)
    assert found
    numbers = [float(number) for number in found[1].split(", ")]
    assert numbers == pytest.approx([costs[name]["ratio"] for name in methods], abs=0.0051)
