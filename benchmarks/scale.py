"""What grows with the data: every step of the loop, and tables that grew faster than it.

python -m benchmarks.scale
python -m benchmarks.scale rows [ROWS ...]

The first part loads, audits, trains for one epoch, evaluates and reports 10,000 to a million rows
of tiny images, each command in a process of its own. The second measures null tables of an audit,
records of the cache and groups of a split as they were done before and as they are done now, in
turns. ``rows`` measures the first part alone.
"""

import hashlib
import multiprocessing
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.growth import growth, measured
from benchmarks.measure import alternate, keep
from crossbias.audit import association
from crossbias.data.images import known_rows
from crossbias.data.images.cache_entry import CachedRow, CacheEntry, hashed
from crossbias.data.images.known_rows import KnownRows
from crossbias.verify import Group, Metrics, wilson

SIZES = (10_000, 100_000, 1_000_000)
SHUFFLES = 99
IMAGES, SEEDS = 4_000, 16
SAMPLES = 20_000


def main() -> None:
    sizes = tuple(map(int, sys.argv[2:])) or SIZES
    rows = [measured(size) for size in sizes]
    keep("scale", {"steps": rows, "growth": growth(rows)}, "cpu", part="rows")
    if "rows" in sys.argv[1:2]:
        return
    found = {"null tables": _null_tables(), "records": _records(), "groups": _groups()}
    keep("scale", found, "cpu")


def _null_tables() -> list[dict[str, Any]]:
    """Seconds of an association's test with so many samples."""
    rows = []
    for n in (100_000, 200_000, 400_000, 800_000):
        random = np.random.default_rng(0)
        columns = [torch.from_numpy(random.integers(0, 10, n)) for _ in range(2)]
        counts = association.count_table(*columns, (10, 10))

        def shuffled() -> None:
            pairs = association._shuffled(*columns, None, SHUFFLES, random)  # noqa: B023
            np.stack([association.count_table(*pair, (10, 10)) for pair in pairs])

        def drawn() -> None:
            association._null_tables(counts, SHUFFLES, random)  # noqa: B023

        times = alternate({"shuffled": shuffled, "drawn": drawn}, 3)
        rows.append({"samples": n} | {name: round(min(each), 4) for name, each in times.items()})
    return rows


def _records() -> list[dict[str, Any]]:
    """Records that are read to find all images of a further split, after so many seeds."""
    rows, read = [], []
    real = known_rows.read_records

    def counted(folder: Path) -> np.ndarray:
        records = real(folder)
        read.append(len(records))
        return records

    with tempfile.TemporaryDirectory() as home:
        kind = Path(home)
        for seed in range(SEEDS):
            names = [f"{each}" for each in np.random.default_rng(seed).permutation(IMAGES)]
            _write(kind, names[: IMAGES * 4 // 5])
            _write(kind, names[IMAGES * 4 // 5 :])
            identities = [identity.tobytes() for identity in hashed(names)]
            with patch.object(known_rows, "read_records", counted):
                read.clear()
                known = KnownRows(kind, 4)
                assert all(known.find(identity) for identity in identities)
            all_records = sum(len(real(folder)) for folder in kind.iterdir())
            if seed + 1 in (1, 2, 4, 8, 16):
                rows.append({"seeds": seed + 1, "all": all_records, "read": sum(read)})
    return rows


def _write(kind: Path, names: list[str]) -> None:
    entry = CacheEntry.of(kind, hashed(names), (4,))
    entry.folder.mkdir()
    with entry.writer() as write:
        for number, identity in enumerate(entry.identities):
            write(number, CachedRow(identity.tobytes(), hashlib.sha256(b"1234").digest(), b"1234"))


def _groups() -> list[dict[str, Any]]:
    """Seconds and peak memory of the metrics of a split with so many classes and as many values."""
    rows = []
    for size in (10, 100, 300, 1000):
        found: dict[str, Any] = {"classes": size, "samples": SAMPLES}
        for name in ("all groups", "groups with samples"):
            alone = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            with alone:  # a process has one peak
                found[name] = alone.submit(_measured, name, size).result()
        rows.append(found)
    return rows


def _measured(kind: str, size: int) -> dict[str, float]:
    """Seconds, and megabytes above what the samples take."""
    draw = torch.Generator().manual_seed(0)
    columns = [torch.randint(size, (SAMPLES,), generator=draw) for _ in range(3)]
    names = [f"{number}" for number in range(size)]
    _listed(kind, [column % 2 for column in columns], names[:2])  # imports are not counted
    before, start = _peak(), time.perf_counter()
    groups = _listed(kind, columns, names)
    seconds = time.perf_counter() - start
    return {"groups": groups, "seconds": round(seconds, 3), "MB": round(_peak() - before, 1)}


def _listed(kind: str, columns: list[torch.Tensor], names: list[str]) -> int:
    """Make the metrics, and with them a list of all groups if asked; how many are listed."""
    metrics = Metrics.from_answers(*columns, alignment=None, classes=names, values=names)
    if kind == "groups with samples":
        return len(metrics.groups)
    found = {(group.target, group.bias): group.accuracy for group in metrics.groups}
    pairs = [(target, bias) for target in names for bias in names]
    listed = [Group(*pair, found.get(pair, wilson(0, 0))) for pair in pairs]
    aligned = tuple(tuple(False for _ in names) for _ in names)
    return len(listed) * bool(aligned)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
