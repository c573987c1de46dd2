"""Time and peak memory of tables of up to 10 million rows: labels, associations, answers.

python -m benchmarks.large_tables [ROWS ...]

Each step is a process of its own, with one thread. ``imports`` is a process that does nothing else:
its time and memory are contained in those of the other steps. Labels are those of a training split
whose images are never looked at; associations are those of an audit.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import apart, in_a_process, keep

SIZES = (100_000, 1_000_000, 10_000_000)
PART = 2**20  # rows that are written at a time

LABELS = """
from crossbias.data.inspect.checking import labels_of
from crossbias.data.own.image_folder import Folder
source = Folder(path=".", labels="{table}", target="y", bias="hospital", {options})
data = labels_of(source, "train")
assert len(data) > 0.5 * {rows} and data.num_groups == 10
"""
ASSOCIATIONS = """
from crossbias.audit.association import strength_of
found = strength_of(data.targets, data.biases, shape=(2, 5), permutations=199, seed=0, tests=1)
assert found.p < 0.01 and found.cramers_v.value > 0.05, found
"""
VERIFY = """
import sys
from crossbias.cli import main
sys.argv = "crossbias verify {table} --target y --prediction {prediction} --bias hospital".split()
sys.argv += "--bias sex --intersections 2".split() + "{options}".split()
main()
"""


def main() -> None:
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    steps = [_measured(rows) for rows in sizes]
    keep("large_tables", {"steps": steps}, "cpu")


def _measured(rows: int) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": rows}
    with tempfile.TemporaryDirectory() as home:
        apart(_write, Path(home), rows)
        for name, code in _steps(rows).items():
            found[name] = in_a_process(code, (), Path(home), {"OMP_NUM_THREADS": "1"})
            print(rows, name, found[name], flush=True)
    return found


def _steps(rows: int) -> dict[str, str]:
    """Programs by name."""

    def labels(table: str, options: str) -> str:
        return LABELS.format(table=table, options=options, rows=rows)

    given, drawn = 'attributes=("sex",)', 'attributes=("sex",), split_by=""'
    positive = "--positive ill"
    return {
        "imports": "import crossbias.cli, crossbias.audit, crossbias.data.inspect.checking",
        "labels, CSV": labels("rows.csv", given),
        "labels, Parquet": labels("rows.parquet", given),
        "labels, splits drawn": labels("rows.parquet", drawn),
        "labels, patients apart": labels("rows.parquet", f'{drawn}, group_by="patient"'),
        "labels and associations": labels("rows.parquet", given) + ASSOCIATIONS,
        "verify classes, CSV": VERIFY.format(table="rows.csv", prediction="answer", options=""),
        "verify probabilities, Parquet": VERIFY.format(
            table="rows.parquet", prediction="p", options=positive
        ),
        "verify with clusters, Parquet": VERIFY.format(
            table="rows.parquet", prediction="p", options=f"{positive} --cluster patient"
        ),
    }


def _write(folder: Path, rows: int) -> None:
    """The same table as CSV and as Parquet, some rows at a time."""
    import pyarrow
    from pyarrow import csv, parquet

    draw = np.random.default_rng(0)
    parts = (
        pyarrow.table(_columns(draw, first, min(PART, rows - first), rows))
        for first in range(0, rows, PART)
    )
    part = next(parts)
    with (
        parquet.ParquetWriter(folder / "rows.parquet", part.schema) as table,
        open(folder / "rows.csv", "wb") as file,
    ):
        file.write(",".join(part.column_names).encode() + b"\n")
        plain = csv.WriteOptions(include_header=False, quoting_style="none")
        while part is not None:
            table.write(part)
            csv.write_csv(part, file, plain)
            part = next(parts, None)


def _columns(draw: np.random.Generator, first: int, count: int, rows: int) -> dict[str, Any]:
    """Hospitals go along with illness a little; a patient has three images on average."""
    ill = draw.random(count) < 0.4
    score = np.clip(draw.normal(0.3 + 0.4 * ill, 0.2), 0, 1).round(4)
    return {
        "file": [
            f"images/{number // 1000:05}/{number:08}.jpg" for number in range(first, first + count)
        ],
        "split": draw.choice(["train", "validation", "test"], count, p=[0.7, 0.1, 0.2]),
        "y": np.where(ill, "ill", "well"),
        "hospital": np.array(list("ABCDE"))[np.minimum(draw.integers(0, 5, count) + ill, 4)],
        "sex": draw.choice(["f", "m"], count),
        "patient": draw.integers(0, max(rows // 3, 1), count),
        "p": score,
        "answer": np.where(score >= 0.5, "ill", "well"),
    }


if __name__ == "__main__":
    main()
