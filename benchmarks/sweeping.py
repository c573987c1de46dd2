"""What a sweep adds to each of its runs: 1,000 tiny runs in a sweep, against the runs alone.

The runs alone are trained one after the other in one process. The sweep trains the same ones, one
at a time, each in a process of its own, as ``crossbias sweep --jobs 1`` does.

python -m benchmarks.sweeping [RUNS]
"""

import statistics
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from benchmarks.measure import keep, seconds
from crossbias.runs.sweeps import SweepFolder
from crossbias.sweep import Plan, run_sweep
from crossbias.sweep.local import LocalExecutor
from crossbias.sweep.worker import train_job

PLAN = """
seeds = [{seeds}]
[data]
name = "toy-2d"
size = 12
test_size = 9
[train]
epochs = 1
"""


_BLOCKS = 10  # which take turns, so that a busy machine disturbs both sides alike


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    overheads = []
    with tempfile.TemporaryDirectory() as name:
        _warm(_plan(Path(name), range(1)), Path(name, "warm"))
        for block in range(_BLOCKS):
            folder = Path(name, str(block))
            folder.mkdir()
            plan = _plan(folder, range(block * runs // _BLOCKS, (block + 1) * runs // _BLOCKS))
            alone = seconds(partial(_train, plan, folder / "alone"))
            sweep = seconds(partial(run_sweep, plan, folder / "sweep", jobs=1))
            overheads.append(1000 * (sweep - alone) / len(plan.jobs()))
    found = {
        "runs": runs,
        "overhead_ms_per_run": round(statistics.median(overheads), 1),
        "blocks": [round(each, 1) for each in overheads],
    }
    keep("sweeping", found, "cpu")


def _plan(folder: Path, seeds: Iterable[int]) -> Plan:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(seeds=", ".join(map(str, seeds))))
    return Plan.read(path)


def _train(plan: Plan, folder: Path) -> None:
    _list(folder)
    for job in plan.jobs():
        assert train_job(job, folder).state == "finished"


def _list(folder: Path) -> None:
    """Make the folder a sweep's, as runs want it."""
    folder.mkdir(parents=True, exist_ok=True)
    SweepFolder(folder).write_listing({}, {})


def _warm(plan: Plan, folder: Path) -> None:
    """Start the process that the others are forked from, which imports torch."""
    _train(plan, folder / "here")
    _list(folder)
    executor = LocalExecutor(folder, jobs=1, threads=1)
    executor.submit(plan.jobs())
    executor.ended(120)
    executor.close()


if __name__ == "__main__":
    main()
