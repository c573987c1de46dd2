"""Seconds that `crossbias verify` takes for a million rows, and for ten thousand groups.

python -m benchmarks.million_answers

Each command runs in a process of its own, imports included, with two threads. The same rows are
judged with and without clusters, and read from CSV and Parquet.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import keep

ROWS = 1_000_000
GROUPS = 10_000
CHOSEN = ("--target", "y", "--prediction", "p", "--bias", "hospital", "--bias", "sex")
COMMANDS = {
    "CSV, pairs, probabilities": ("rows.csv", *CHOSEN, "--positive", "ill", "--intersections", "2"),
    "the same, Parquet": ("rows.parquet", *CHOSEN, "--positive", "ill", "--intersections", "2"),
    "the same, with clusters": (
        *("rows.csv", *CHOSEN, "--positive", "ill", "--intersections", "2"),
        *("--cluster", "patient"),
    ),
    "two models by identifiers": (
        *("rows.csv", *CHOSEN, "--prediction", "q", "--positive", "ill", "--id", "id"),
    ),
    "classes only": ("rows.csv", *CHOSEN[:3], "answer", *CHOSEN[4:], "--intersections", "2"),
    "10,000 groups, with a page": (
        *("groups.csv", *CHOSEN[:6], "--positive", "ill", "-o", "page.html"),
    ),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        _write(folder)
        rows = [_measured(name, arguments, folder) for name, arguments in COMMANDS.items()]
    keep("million_answers", {"rows": ROWS, "groups": GROUPS, "commands": rows}, "cpu")


def _measured(name: str, arguments: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Wall and processor time of one command; a busy machine makes the first longer."""
    program = "from crossbias.cli import main; main()"
    command = [sys.executable, "-c", program, "verify", *arguments]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "command": name,
        "wall seconds": round(wall, 2),
        "processor seconds": round(used, 2),
        "printed lines": done.stdout.count(b"\n"),
    }


def _write(folder: Path) -> None:
    """The tables: a million rows of ten groups, and a hundred thousand of ten thousand."""
    import pandas as pd

    draw = np.random.default_rng(0)
    ill = draw.random(ROWS) < 0.4
    scores = [np.clip(draw.normal(0.3 + 0.4 * ill, 0.2), 0, 1).round(6) for _ in range(2)]
    table = pd.DataFrame(
        {
            "id": np.arange(ROWS),
            "y": np.where(ill, "ill", "well"),
            "p": scores[0],
            "q": scores[1],
            "answer": np.where(scores[0] >= 0.5, "ill", "well"),
            "hospital": draw.choice(list("ABCDE"), ROWS),
            "sex": draw.choice(["f", "m"], ROWS),
            "patient": draw.integers(0, ROWS // 3, ROWS),
        }
    )
    table.to_csv(folder / "rows.csv", index=False)
    table.to_parquet(folder / "rows.parquet")
    few = table[: ROWS // 10].assign(hospital=draw.integers(0, GROUPS, ROWS // 10))
    few.to_csv(folder / "groups.csv", index=False)


if __name__ == "__main__":
    main()
