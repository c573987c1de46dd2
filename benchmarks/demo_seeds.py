"""The demo with five seeds: does its story hold, how long does it take, how much memory.

python -m benchmarks.demo_seeds
"""

import resource
import tempfile
from pathlib import Path

from benchmarks.measure import keep, seconds
from crossbias.demo import run_demo


def main() -> None:
    found = {}
    for seed in range(5):
        with tempfile.TemporaryDirectory() as folder:
            results = {}
            took = seconds(lambda: results.update(run_demo(Path(folder), seed=seed)))  # noqa: B023
        found[f"seed {seed}"] = {"seconds": round(took, 1)} | {
            name: {
                "aligned": round(metrics.aligned.value, 4),
                "conflicting": round(metrics.conflicting.value, 4),
            }
            for name, metrics in results.items()
        }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    keep("demo_seeds", found | {"peak GiB": round(peak, 2)}, "cpu")


if __name__ == "__main__":
    main()
