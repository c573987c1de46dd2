"""`import crossbias` against `import torch`, each in a fresh interpreter.

Processor time, which other work on the machine changes little. Both are imported from bytecode,
as installed packages are; a first turn, which is not counted, compiles what is missing.

    python -m benchmarks.imports
"""

import os
import statistics
import subprocess
import sys

from benchmarks.measure import keep, ratio

TURNS = 7


def seconds_of(module: str) -> float:
    with_bytecode = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env=with_bytecode)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


def main() -> None:
    times: dict[str, list[float]] = {"crossbias": [], "torch": []}
    for turn in range(TURNS + 1):
        for name, found in times.items():
            taken = seconds_of(name)
            if turn:
                found.append(taken)
    medians = {name: round(statistics.median(found), 3) for name, found in times.items()}
    keep("imports", medians | {"ratio": round(ratio(times, "crossbias", "torch"), 3)}, "cpu")


if __name__ == "__main__":
    main()
