"""The numbers of docs/sample-size.md are those that the functions give."""

import re
from pathlib import Path

import pytest

from crossbias.formatting import DASH
from crossbias.verify import planning

PAGE = (Path(__file__).parents[2] / "docs" / "sample-size.md").read_text()


def table(section: str, head: str) -> dict[tuple[float, float], str]:
    """The cells of the table with this first head, by the numbers of row and column."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = re.search(rf"^\| {head} \|.*?\n\n", text, re.DOTALL | re.MULTILINE)
    assert lines, (section, head)
    heads, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].split("\n")[:-2]
    ]
    columns = [float(text.rstrip("%")) for text in heads[1:]]
    return {
        (float(row[0]), column): cell
        for row in rows
        for column, cell in zip(columns, row[1:], strict=True)
    }


@pytest.mark.parametrize(
    ("section", "head", "cells", "computed"),
    [
        (
            *("Samples in a group", "samples", 35),
            lambda n, accuracy: f"{100 * planning.half_width(accuracy / 100, int(n)):.1f}",
        ),
        (
            *("Samples in a group", "points", 20),
            lambda half, accuracy: str(
                planning.samples_for_accuracy(accuracy / 100, half=half / 100)
            ),
        ),
        (
            *("Conflicting samples to see a gain", "gain in points", 20),
            lambda gain, differing: DASH if gain > differing else str(
                planning.samples_for_gain(gain / 100, differing=differing / 100)
            ),
        ),
        (
            *("Seeds", "gain in points", 24),
            lambda gain, deviation: str(
                planning.seeds_for_gain(gain / 100, deviation=deviation / 100)
            ),
        ),
    ],
    ids=["half-width", "samples", "gain", "seeds"],
)  # fmt: skip
def test_every_table_is_computed(section, head, cells, computed) -> None:
    found = table(section, head)
    assert len(found) == cells
    assert found == {place: computed(*place) for place in found}
