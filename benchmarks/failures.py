"""Which runs of our own benchmark did not help, and whether they said so.

A run fails if it is right on 3 points fewer of all test images than plain training with the same
seed, or, where a shortcut is planted, if it gains fewer than 15 points on conflicting ones. It says
so if its health names what is wrong. That there are few conflicting samples is said of
plain training too, and does not count.

python -m benchmarks.failures shortcuts
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import RESULTS
from benchmarks.shortcuts import NATURAL
from benchmarks.table import ROOT, Table
from crossbias.formatting import DASH

GAIN, LOSS = 0.15, 0.03

BASELINE = "erm"


class Judged(NamedTuple):
    """A run beside plain training with its seed."""

    row: str
    column: str
    seed: int
    gain: float
    overall: float
    planted: bool
    named: bool

    @property
    def failed(self) -> bool:
        """Whether it gains too little or loses too much."""
        return (self.planted and self.gain < GAIN) or self.overall < -LOSS


def judged(table: Table, found: Mapping[str, dict[str, Any]]) -> Iterator[Judged]:
    """All runs of a table that have a run of plain training beside them."""
    for row, column, seed in ((job.row, job.column, job.seed) for job in table.jobs()):
        run, plain = (found.get(f"{name} | {column} | {seed}", {}) for name in (row, BASELINE))
        if row == BASELINE or "found" not in run or "found" not in plain:
            continue
        test, expected = run["found"]["test"], plain["found"]["test"]
        folder = Path(table.columns[column]["data.name"].removeprefix("folder:")).name
        yield Judged(
            row, column, seed,
            gain=test["conflicting"] - expected["conflicting"],
            overall=test["overall"] - expected["overall"],
            planted=folder not in NATURAL,
            named=bool(set(run["health"]) - set(plain["health"])),
        )  # fmt: skip


def overview(table: Table, found: Mapping[str, dict[str, Any]]) -> str:
    """How many of the failed runs said so, by method and data; those that did not; the others."""
    runs = list(judged(table, found))
    lines = ["| row | " + " | ".join(table.columns) + " |", "|---" * (1 + len(table.columns)) + "|"]
    for row in dict.fromkeys(run.row for run in runs):
        cells = [
            [run for run in runs if run.failed and (run.row, run.column) == (row, column)]
            for column in table.columns
        ]
        lines.append("| " + " | ".join([row, *map(_said, cells)]) + " |")
    silent = [run for run in runs if run.failed and not run.named]
    lines += ["", "Said nothing:", *map(_in_words, silent)] if silent else []
    helped = [run for run in runs if not run.failed]
    warned = sum(run.named for run in helped)
    lines += ["", f"Of the {len(helped)} runs that did not fail, {warned} have a warning, too."]
    return "\n".join(lines) + "\n"


def _said(failed: list[Judged]) -> str:
    return f"{sum(run.named for run in failed)} of {len(failed)}" if failed else DASH


def _in_words(run: Judged) -> str:
    return (
        f"- {run.row}, {run.column}, seed {run.seed}: {100 * run.gain:+.1f} points of the "
        f"conflicting images, {100 * run.overall:+.1f} of all"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="a file in tables/, without .toml")
    options = parser.parse_args()
    table = Table.read(ROOT / "tables" / f"{options.name}.toml", ROOT / "recipes")
    found = json.loads((RESULTS / "tables" / f"{options.name}.json").read_text())["runs"]
    print(overview(table, found))


if __name__ == "__main__":
    main()
