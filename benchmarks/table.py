"""A table of a paper, from ``tables/NAME.toml`` to ``results/tables/NAME.json`` and ``.md``.

Trains what is missing, each run in a process and a folder of its own, several at a time on one
device. A run that is in the results is not repeated; an interrupted one is continued. Results that
were made with other settings, another recipe or other data than the table asks for are refused.

python -m benchmarks.table NAME [--jobs 8] [--only ROW] [--stop-after SECONDS]
"""

import argparse
import hashlib
import json
import math
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.formatting import DASH
from crossbias.parameters import closest, unknown
from crossbias.registry import METHODS
from crossbias.runs.files import write_atomically
from crossbias.runs.health import load_health
from crossbias.verify import over_seeds

ROOT = Path(__file__).parents[1]
_KEYS = {"title", "paper", "seeds", "metrics", "columns", "rows"}
_ROW_KEYS = {"recipe", "method", "set", "at", "paper"}


@dataclass(frozen=True)
class Job:
    """One run of a table."""

    row: str
    column: str
    seed: int
    recipe: str | None
    method: str | None
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name of the run in the results."""
        return f"{self.row} | {self.column} | {self.seed}"

    def command(self) -> list[str]:
        """Arguments of ``crossbias`` but for the folder."""
        settings = self.settings | {"data.seed": self.seed}
        sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        start = ["--method", self.method] if self.method else []
        start += ["--config", f"recipes/{self.recipe}.toml"] if self.recipe else []
        return ["train", *start, "--seed", str(self.seed), *sets]

    def written(self) -> str:
        """The command as the results have it."""
        return " ".join(["crossbias", *self.command()])

    def recipe_hash(self) -> str | None:
        """SHA-256 of what the recipe says, whatever its comments; None without a recipe."""
        if self.recipe is None:
            return None
        said = tomllib.loads((ROOT / "recipes" / f"{self.recipe}.toml").read_text(encoding="utf-8"))
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Table:
    """What ``tables/NAME.toml`` says.

    Args:
        title: Of the table.
        paper: Where its numbers come from.
        seeds: Each changes weights, order and the drawing of the data.
        metrics: Name, and the split and the number of ``metrics.json`` it is.
        columns: Name, and settings of all runs in it.
        rows: Name, recipe or method, settings (``set``), settings in one column (``at``), and
            for each metric the paper's number in each column: a number, or a number and its
            spread.
    """

    title: str
    paper: str
    seeds: list[int]
    metrics: dict[str, dict[str, str]]
    columns: dict[str, dict[str, Any]]
    rows: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path, recipes: Path) -> "Table":
        """The table, every mistake in it refused."""
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for name in content.keys() ^ _KEYS:
            what = "lacks" if name in _KEYS else f"has an unknown{closest(name, _KEYS)}"
            raise CrossbiasError(
                f"{path} {what} {name!r}; its keys are: {', '.join(sorted(_KEYS))}"
            )
        table = cls(**content)
        if len(set(table.seeds)) < len(table.seeds):
            raise CrossbiasError(
                f"{path} has a seed twice: {table.seeds}; a repetition adds nothing"
            )
        for name, row in table.rows.items():
            table._check_row(f"row {name!r} of {path}", row, recipes)
        return table

    def _check_row(self, what: str, row: dict[str, Any], recipes: Path) -> None:
        for key in row.keys() - _ROW_KEYS:
            raise CrossbiasError(
                f"{what} has an unknown key {key!r}{closest(key, _ROW_KEYS)}; its keys may be: "
                f"{', '.join(sorted(_ROW_KEYS))}"
            )
        if not row.keys() & {"recipe", "method"}:
            raise CrossbiasError(f"{what} names neither a recipe nor a method; add one of them")
        method = row.get("method", "erm")
        if ":" not in method and method not in METHODS:
            raise unknown(f"{what} names a method that is not there:", method, METHODS)
        if "recipe" in row and not (recipes / f"{row['recipe']}.toml").exists():
            known = sorted(file.stem for file in recipes.glob("*.toml"))
            raise CrossbiasError(
                f"{what} names a recipe that is not there: "
                f"{row['recipe']!r}{closest(row['recipe'], known)}; there are: {', '.join(known)}"
            )
        for column in row.get("at", {}).keys() - self.columns.keys():
            raise CrossbiasError(
                f"{what} has settings at {column!r}, which is no column"
                f"{closest(column, self.columns)}; there are: {', '.join(self.columns)}"
            )
        for metric, numbers in row.get("paper", {}).items():
            if metric not in self.metrics or len(numbers) != len(self.columns):
                raise CrossbiasError(
                    f"{what} has {len(numbers)} numbers of {metric!r} for {len(self.columns)} "
                    f"columns of {', '.join(self.metrics)}; give one for each column"
                )

    def jobs(self) -> Iterator[Job]:
        """All runs, seed by seed, so that early results fill the whole table."""
        for seed in self.seeds:
            for row, about in self.rows.items():
                for column, settings in self.columns.items():
                    own = about.get("set", {}) | about.get("at", {}).get(column, {})
                    yield Job(
                        row, column, seed, about.get("recipe"), about.get("method"), settings | own
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="a file in tables/, without .toml")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time on the device")
    parser.add_argument("--only", action="append", help="this row alone; may be repeated")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="start no run after")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "tables")
    parser.add_argument("--results", type=Path, default=RESULTS / "tables")
    options = parser.parse_args()
    try:
        table = Table.read(ROOT / "tables" / f"{options.name}.toml", ROOT / "recipes")
        _fill(table, options)
    except (CrossbiasError, OSError) as error:
        sys.exit(f"benchmarks.table: {error}")


def _fill(table: Table, options: argparse.Namespace) -> None:
    path = options.results / f"{options.name}.json"
    found = json.loads(path.read_text())["runs"] if path.exists() else {}
    check_results(table, found)
    missing = [job for job in table.jobs() if job.key not in found]
    missing = [job for job in missing if not options.only or job.row in options.only]
    started = time.monotonic()

    def run(job: Job) -> tuple[Job, dict[str, Any] | None]:
        if time.monotonic() - started > options.stop_after:
            return job, None
        return job, train(job, options.runs / options.name, options.jobs)

    options.results.mkdir(parents=True, exist_ok=True)
    pool = ThreadPoolExecutor(options.jobs)
    try:
        for future in as_completed([pool.submit(run, job) for job in missing]):
            job, record = future.result()
            if record is not None:
                print(job.key, record.get("failed") or record["found"], flush=True)
                found[job.key] = record
                write(table, found, path)  # at once: the process may be stopped at any time
    finally:
        pool.shutdown(cancel_futures=True)
    write(table, found, path)


def train(job: Job, runs: Path, jobs: int) -> dict[str, Any] | None:
    """Train in a process of its own; what came out, or how it failed; None if interrupted."""
    folder = runs / job.key.replace(" | ", "/").replace(" ", "-")
    begun = ["--resume"] if (folder / "config.json").exists() else []
    if begun:
        _check_folder(folder, job)
    if not (folder / "done").exists():
        program = "import sys; sys.argv[0] = 'crossbias'; from crossbias.cli import main; main()"
        arguments = [*job.command(), *begun, "--out", str(folder), "--quiet", "--trust"]
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True, text=True, check=False, cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "2"},
        )  # fmt: skip
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        if done.returncode < 0 or done.returncode == Interrupted.exit_code:
            print(f"{job.key} was interrupted; the next call continues it", flush=True)
            return None
        if begun and done.returncode == CrossbiasError.exit_code:  # other settings or other data
            raise CrossbiasError(f"{job.key!r} cannot be continued: {lines[-1]}; remove {folder}")
        if done.returncode:
            return {"failed": lines[-1], "command": job.written(), "recipe": job.recipe_hash()}
    return _record(folder, job, jobs)


def _check_folder(folder: Path, job: Job) -> None:
    """Refuse a run folder that another command made."""
    made = shlex.split(json.loads((folder / "config.json").read_text())["command"])
    wanted = ["crossbias", *job.command()]
    if made[: len(wanted)] != wanted:
        raise CrossbiasError(
            f"{folder} holds the run of {shlex.join(made)}, not of {job.written()}; remove the "
            f"folder, or name another with --runs"
        )


def _record(folder: Path, job: Job, jobs: int) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text())
    metrics = json.loads((folder / "metrics.json").read_text())
    epochs = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    numbers = ("overall", "aligned", "conflicting", "unbiased", "class_averaged")
    return {
        "command": job.written(),
        "recipe": job.recipe_hash(),
        "version": config["data"].get("version"),
        "commit": config["commit"],
        "device": config["environment"]["device"],
        "torch": config["environment"]["torch"],
        "selection": config["selection"],
        "supervision": config["supervision"],
        "hashes": config["data"]["hashes"],
        "seconds": round(sum(epoch["seconds"] for epoch in epochs), 1),
        "jobs": jobs,
        "health": [symptom.name for symptom in load_health(folder / "health.json")],
        "found": {
            split: {name: values[name]["value"] for name in numbers if values.get(name)}
            for split, values in metrics.items()
        },
    }


def write(table: Table, found: Mapping[str, dict[str, Any]], path: Path) -> None:
    """The results as JSON and as Markdown."""
    check_results(table, found)
    cells = [cell for cell in _cells(table, found) if cell["n"] or cell["failed"]]
    content = {"title": table.title, "paper": table.paper, "cells": cells, "runs": dict(found)}
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))
    path.with_suffix(".md").write_text(markdown(table, cells))


def check_results(table: Table, found: Mapping[str, dict[str, Any]]) -> None:
    """Refuse results that are not those of the table, or not of the same data."""
    for job in table.jobs():
        record = found.get(job.key, {})
        remedy = "remove it from the results and run it again"
        if record.get("command", job.written()) != job.written():
            raise CrossbiasError(
                f"{job.key!r} was made by {record['command']!r}, but the table asks for "
                f"{job.written()!r}; {remedy}"
            )
        if record.get("recipe") not in (None, job.recipe_hash()):
            raise CrossbiasError(
                f"{job.key!r} was made when recipes/{job.recipe}.toml had other settings; {remedy}"
            )
    check_same_data(table, found)
    check_same_version(table, found)


def check_same_version(table: Table, found: Mapping[str, dict[str, Any]]) -> None:
    """Refuse seeds whose data was drawn by different versions of its generator."""
    for column in table.columns:
        keys = [f"{row} | {column} | {seed}" for row in table.rows for seed in table.seeds]
        versions = {key: v for key in keys if (v := found.get(key, {}).get("version")) is not None}
        for key, version in versions.items():
            first = next(iter(versions))
            if version != versions[first]:
                raise CrossbiasError(
                    f"{first!r} has version {versions[first]} of its data and {key!r} version "
                    f"{version}; remove the older one from the results and run it again"
                )


def check_same_data(table: Table, found: Mapping[str, dict[str, Any]]) -> None:
    """Refuse rows that were judged on different data: they must not stand in one column.

    A row that itself says it has other data, by a setting of the data, is left out.
    """
    alike = [
        row for row, about in table.rows.items()
        if not any(name.startswith("data.") for name in about.get("set", {}))
    ]  # fmt: skip
    for column in table.columns:
        for seed in table.seeds:
            keys = [f"{row} | {column} | {seed}" for row in alike]
            hashes = {key: found[key].get("hashes") for key in keys if key in found}
            known = {key: value for key, value in hashes.items() if value}
            for key, value in known.items():
                first = next(iter(known))
                splits = value.keys() & known[first].keys()
                differ = [split for split in splits if value[split] != known[first][split]]
                if differ:
                    raise CrossbiasError(
                        f"{first!r} and {key!r} have other data in {', '.join(differ)}; remove "
                        f"the older one from the results and run it again"
                    )


def _cells(table: Table, found: Mapping[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row, about in table.rows.items():
        for metric, place in table.metrics.items():
            for number, column in enumerate(table.columns):
                records = [found.get(f"{row} | {column} | {seed}") for seed in table.seeds]
                done = [record for record in records if record and "found" in record]
                values = [record["found"][place["split"]][place["number"]] for record in done]
                failed = [
                    f"{row}, {column}, seed {seed}: {record['failed']}"
                    for seed, record in zip(table.seeds, records, strict=True)
                    if record and "failed" in record
                ]
                published = about.get("paper", {}).get(metric, [None] * len(table.columns))[number]
                yield {"row": row, "metric": metric, "column": column} | _cell(
                    values, failed, published
                )


def _cell(values: list[float], failed: list[str], published: Any) -> dict[str, Any]:
    """Ours over the seeds beside the paper's, in percent."""
    value, spread = published if isinstance(published, list) else (published, None)
    cell: dict[str, Any] = {"n": len(values), "failed": failed, "paper": value, "spread": spread}
    if values:
        ours = over_seeds(values)
        rounded = {
            name: None if math.isnan(number) else round(100 * number, 2)
            for name, number in ours._asdict().items()
            if name != "seeds"
        }
        cell |= rounded
        if value is not None:
            cell["difference"] = round(rounded["mean"] - value, 2)
            cell["inside"] = None if spread is None else abs(cell["difference"]) <= spread
    return cell


def markdown(table: Table, cells: list[dict[str, Any]]) -> str:
    """The table for people; one without numbers of a paper has the columns side by side."""
    if all(cell["paper"] is None for cell in cells):
        return f"**{table.title}** ({table.paper})\n\n" + _side_by_side(table, cells)
    heads = ("row", "measured", "column", "ours", "runs", "95% interval", "paper", "difference")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for cell in cells:
        failed = f", {len(cell['failed'])} failed" if cell["failed"] else ""
        ours = DASH if not cell["n"] else f"{cell['mean']:.2f}{_plus_minus(cell['deviation'])}"
        limits = DASH if cell.get("low") is None else f"{cell['low']:.1f} to {cell['high']:.1f}"
        paper = DASH if cell["paper"] is None else f"{cell['paper']}{_plus_minus(cell['spread'])}"
        inside = {True: " (inside)", False: " (outside)", None: ""}[cell.get("inside")]
        difference = f"{cell['difference']:+.2f}{inside}" if "difference" in cell else DASH
        parts = (cell["row"], cell["metric"], cell["column"], ours, f"{cell['n']}{failed}")
        lines.append("| " + " | ".join([*parts, limits, paper, difference]) + " |")
    reasons = {reason: None for cell in cells for reason in cell["failed"]}  # each once, in order
    lines += ["", "Failed:", *(f"- {reason}" for reason in reasons)] if reasons else []
    return f"**{table.title}** ({table.paper})\n\n" + "\n".join(lines) + "\n"


def _side_by_side(table: Table, cells: list[dict[str, Any]]) -> str:
    heads = ("measured", "row", *table.columns)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    found = {(cell["metric"], cell["row"], cell["column"]): cell for cell in cells}
    for metric in table.metrics:
        for row in table.rows:
            shown = [_alone(found.get((metric, row, column))) for column in table.columns]
            lines.append("| " + " | ".join([metric, row, *shown]) + " |")
    return "\n".join(lines) + "\n"


def _alone(cell: dict[str, Any] | None) -> str:
    """A mean with its deviation and the number of runs, or how many were refused or failed."""
    if cell is None or not cell["n"]:
        return DASH if cell is None else f"{len(cell['failed'])} failed"
    return f"{cell['mean']:.1f}{_plus_minus(cell['deviation'])} ({cell['n']})"


def _plus_minus(number: float | None) -> str:
    return "" if number is None else f" ± {number:.2f}"


if __name__ == "__main__":
    main()
