"""The papers' experiments by their recipes: one result file each, with everything that made it.

Runs that were interrupted are continued, finished ones are not repeated.

python -m benchmarks.reproduce --jobs 4 biased-mnist-erm biased-mnist-end
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS

RECIPES = Path(__file__).parent.parent / "recipes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="+", help="names of files in recipes/, without .toml")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time on the device")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the run folders")
    parser.add_argument("--results", type=Path, default=RESULTS / "reproduce")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for text in pool.map(lambda name: _reproduce(name, options), options.recipes):
            print(text, flush=True)


def _reproduce(name: str, options: argparse.Namespace) -> str:
    """Train by a recipe in a process of its own; what came out, in one line."""
    folder = options.runs / f"{name}-{options.seed}"
    arguments = ["train", "--config", str(RECIPES / f"{name}.toml"), "--seed", str(options.seed)]
    if not (folder / "metrics.json").exists():
        begun = ["--resume"] if (folder / "config.json").exists() else []
        program = "import sys; sys.argv[0] = 'crossbias'; from crossbias.cli import main; main()"
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                program,
                *arguments,
                *begun,
                "--out",
                str(folder),
                "--quiet",
                "--trust",
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "2"},
        )
        if done.returncode:
            return f"{name}: failed with {done.returncode}\n{done.stderr[-2000:]}"
    shutil.copy(folder / "log.jsonl", options.results / f"{name}-{options.seed}.log.jsonl")
    record = _record(folder, options.jobs, " ".join(["crossbias", *arguments]))
    path = options.results / f"{name}-{options.seed}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    return f"{name}: {json.dumps(record['found'])}"


def _record(folder: Path, jobs: int, command: str) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text())
    del config["command"]  # of the last part of an interrupted run, with the place of its folder
    metrics = json.loads((folder / "metrics.json").read_text())
    epochs = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    counts = {file.stem: json.loads(file.read_text()) for file in folder.glob("stages/*.json")}
    return {
        "command": command,
        "seconds of training": round(sum(epoch["seconds"] for epoch in epochs), 1),
        "jobs on the device": jobs,
        "config": config,
        "found": {split: _summary(found) for split, found in metrics.items()},
        "stages": counts,
    }


def _summary(found: dict[str, Any]) -> dict[str, float]:
    names = ("overall", "aligned", "conflicting", "unbiased")
    values = {name: (found.get(name) or {}).get("value") for name in names}
    return {name: round(100 * value, 2) for name, value in values.items() if value is not None}


if __name__ == "__main__":
    main()
