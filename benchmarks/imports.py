"""`import crossbias` against `import torch`, each in a fresh interpreter.

python -m benchmarks.imports
"""

import statistics
import subprocess
import sys

from benchmarks.measure import alternate, keep, ratio


def imported(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


def main() -> None:
    actions = {name: lambda name=name: imported(name) for name in ("crossbias", "torch")}
    alternate(actions, 1)
    times = alternate(actions, 5)
    found = {name: round(statistics.median(values), 3) for name, values in times.items()}
    keep("imports", found | {"ratio": round(ratio(times, "crossbias", "torch"), 3)}, "cpu")


if __name__ == "__main__":
    main()
