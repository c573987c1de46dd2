"""Tables of papers, from ``tables/NAME.toml`` to ``results/tables/NAME.json`` and ``.md``.

Trains what is missing, each run in a process and a folder of its own, several at a time on one
device. A run that is in the results is not repeated; an interrupted one is continued. Results that
were made with other settings, another recipe or other data than the table asks for are refused.
When a run has ended well, its folder keeps everything but the weights.

Runs start in the order in which they are named: all of a table, or those of a row, of a column
and of a seed of it. A part that is left empty names all, as in ``pgd-table-1:lff::0``.

python -m benchmarks.table NAME[:ROW[:COLUMN[:SEED]]] ... [--jobs 8] [--stop-after SECONDS]
"""

import argparse
import errno
import hashlib
import json
import math
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS
from benchmarks.processes import LOST, Program
from benchmarks.table_files import NUMBERS, check_kinds, read_runs, read_toml
from crossbias.data import find_source
from crossbias.errors import CrossbiasError, Interrupted
from crossbias.formatting import DASH
from crossbias.parameters import closest, unknown
from crossbias.registry import METHODS
from crossbias.runs.files import write_atomically
from crossbias.runs.folder import RunFolder
from crossbias.runs.health import load_health
from crossbias.verify import over_seeds

ROOT = Path(__file__).parents[1]
_KEYS = {"title", "paper", "seeds", "metrics", "columns", "rows"}
_ROW_KEYS = {"recipe", "method", "set", "at", "paper"}
_OF_THE_MACHINE = (
    *(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)),
    *("out of memory", "Unable to allocate", "MemoryError", "CUBLAS_STATUS_ALLOC_FAILED"),
)
"""In the errors of a run that the machine ended: another time, it may go well."""


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
        said = json.dumps(self._recipe(), sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def data(self) -> str:
        """The name of the data."""
        return str(self.settings.get("data.name") or self._recipe()["data"]["name"])

    def _recipe(self) -> dict[str, Any]:
        return read_toml(ROOT / "recipes" / f"{self.recipe}.toml")


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
        content = read_toml(path)
        for name in content.keys() ^ _KEYS:
            what = "lacks" if name in _KEYS else f"has an unknown{closest(name, _KEYS)}"
            raise CrossbiasError(
                f"{path} {what} {name!r}; its keys are: {', '.join(sorted(_KEYS))}"
            )
        check_kinds(content, path)
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


@dataclass(frozen=True)
class Results:
    """A table, and the runs of it that are finished.

    Args:
        name: Of the files of the table.
        table: The table.
        path: The file of the results.
        found: What came out of each run that is finished.
    """

    name: str
    table: Table
    path: Path
    found: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, name: str, folder: Path) -> "Results":
        """The table of a name with its results so far, which must be those of the table."""
        known = sorted(file.stem for file in (ROOT / "tables").glob("*.toml"))
        if name not in known:
            raise unknown("there is no table", name, known)
        table = Table.read(ROOT / "tables" / f"{name}.toml", ROOT / "recipes")
        path = folder / f"{name}.json"
        found = read_runs(path)
        check_results(table, found)
        return cls(name, table, path, found)

    def take(self, job: Job, record: dict[str, Any]) -> None:
        """Keep what came out of a run, at once: the process may be stopped at any time."""
        check_results(self.table, self.found | {job.key: record})
        print(job.key, record.get("failed") or record["found"], flush=True)
        self.found[job.key] = record
        write(self.table, self.found, self.path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "queue", nargs="+", metavar="NAME[:ROW[:COLUMN[:SEED]]]",
        help="a file in tables/, without .toml, and which of its runs; the others are left out",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time on the device")
    parser.add_argument(
        "--stop-after", type=float, default=math.inf, metavar="SECONDS",
        help="start no run after this time; those that train are finished",
    )  # fmt: skip
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "tables")
    parser.add_argument("--results", type=Path, default=RESULTS / "tables")
    options = parser.parse_args()
    try:
        _fill(queued(options.queue, options.results), options)
    except (CrossbiasError, OSError) as error:
        sys.exit(f"benchmarks.table: {error}")


def queued(names: Sequence[str], folder: Path) -> list[tuple[Results, Job]]:
    """The runs that are named, in this order and each once.

    Args:
        names: ``NAME[:ROW[:COLUMN[:SEED]]]``.
        folder: Where results are.
    """
    tables = [name.partition(":")[0] for name in names]
    results = {name: Results.read(name, folder) for name in tables}
    queue = {
        (table, job.key): (results[table], job)
        for table, name in zip(tables, names, strict=True)
        for job in _chosen(results[table].table, name)
    }
    return list(queue.values())


def _chosen(table: Table, name: str) -> Iterator[Job]:
    """The runs of a table that a name like ``NAME:ROW:COLUMN:SEED`` chooses."""
    _, *parts = name.split(":")
    there = {"row": list(table.rows), "column": list(table.columns), "seed": table.seeds}
    if len(parts) > len(there):
        raise CrossbiasError(f"{name!r} has too many parts; it may have a row, a column and a seed")
    chosen = dict(zip(there, parts, strict=False))
    for what, part in chosen.items():
        known = [str(value) for value in there[what]]
        if part and part not in known:
            raise unknown(f"{name!r} names a {what} that is not in the table:", part, known)
    for job in table.jobs():
        if all(not part or part == str(getattr(job, what)) for what, part in chosen.items()):
            yield job


def _fill(queue: Sequence[tuple[Results, Job]], options: argparse.Namespace) -> None:
    """Train what is missing; a run that is refused does not stop the others."""
    started = time.monotonic()

    def run(results: Results, job: Job) -> dict[str, Any] | None:
        if time.monotonic() - started > options.stop_after:
            late.append(job)
            return None
        return train(job, options.runs / results.name, options.jobs)

    os.environ.setdefault("OMP_NUM_THREADS", "2")  # of each run
    options.results.mkdir(parents=True, exist_ok=True)
    late: list[Job] = []
    refused: list[str] = []
    pool = ThreadPoolExecutor(options.jobs)
    try:
        futures = {
            pool.submit(run, results, job): (results, job)
            for results, job in queue
            if job.key not in results.found
        }
        for future in as_completed(futures):
            results, job = futures[future]
            try:
                if (record := future.result()) is not None:
                    results.take(job, record)
                    if "found" in record:
                        remove_weights(folder_of(job, options.runs / results.name))
            except CrossbiasError as error:
                refused.append(str(error))
    finally:
        pool.shutdown(cancel_futures=True)
    for results in {results.name: results for results, _ in queue}.values():
        write(results.table, results.found, results.path)
    if late:
        print(f"{len(late)} runs were not started; the same command continues with them")
    if refused:
        raise CrossbiasError("; ".join(refused))


def train(job: Job, runs: Path, jobs: int) -> dict[str, Any] | None:
    """Train in a process of its own; what came out, or how it failed; None if interrupted."""
    folder = folder_of(job, runs)
    begun = ["--resume"] if (folder / "config.json").exists() else []
    if begun:
        _check_folder(folder, job)
    if not (folder / "done").exists():
        arguments = [*job.command(), *begun, "--out", str(folder), "--quiet", "--trust"]
        done = Program.run(
            "from crossbias.cli import main; main()", ["crossbias", *arguments], ROOT, timeout=None
        )
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        if done.returncode < 0 or done.returncode in (Interrupted.exit_code, LOST):
            print(f"{job.key} was interrupted; the next call continues it", flush=True)
            return None
        found = [line for line in lines if any(reason in line for reason in _OF_THE_MACHINE)]
        if done.returncode and found:
            raise CrossbiasError(
                f"{job.key!r} was ended by the machine: {found[-1]}; make room, or take "
                f"fewer --jobs, and give the same command again"
            )
        if begun and done.returncode == CrossbiasError.exit_code:  # other settings or other data
            raise CrossbiasError(f"{job.key!r} cannot be continued: {lines[-1]}; remove {folder}")
        if done.returncode:
            return {"failed": lines[-1], "command": job.written(), "recipe": job.recipe_hash()}
    return _record(folder, job, jobs)


def folder_of(job: Job, runs: Path) -> Path:
    """Where a run is trained."""
    return runs / job.key.replace(" | ", "/").replace(" ", "-")


def remove_weights(folder: Path) -> None:
    """Hundreds of runs would fill a disk with weights that no table reads."""
    run = RunFolder(folder)
    for file in (run.checkpoint, run.model, *run.stages.rglob("*.state.pt")):
        file.unlink(missing_ok=True)


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
            split: {name: values[name]["value"] for name in NUMBERS if values.get(name)}
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
        if (version := record.get("version")) is not None:
            made = find_source(job.data()).version
            if version != made:
                raise CrossbiasError(
                    f"{job.key!r} has version {version} of {job.data()}, but crossbias makes "
                    f"version {made}; {remedy}"
                )
        if "found" in record:
            _check_numbers(table, job.key, record["found"])
    check_same_data(table, found)


def _check_numbers(table: Table, key: str, judged: Mapping[str, dict[str, Any]]) -> None:
    """Refuse a run that lacks a number of the table."""
    for metric, place in table.metrics.items():
        number = judged.get(place["split"], {}).get(place["number"])
        if number is None or not math.isfinite(number):
            raise CrossbiasError(
                f"{key!r} has no {place['number']!r} of split {place['split']!r}, which is "
                f"{metric!r} of the table; its splits are: {', '.join(judged)}"
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
    for row in table.rows:
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
                published = _published(table, row, metric)[number]
                yield {"row": row, "metric": metric, "column": column} | _cell(
                    values, failed, published
                )


def _published(table: Table, row: str, metric: str) -> list[Any]:
    """The paper's number in each column, or a number and its spread; None where it has none."""
    numbers: list[Any] = table.rows[row].get("paper", {}).get(metric, [None] * len(table.columns))
    return numbers


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
    """Everything about the table for people, a line for each number."""
    heads = ("row", "measured", "column", "ours", "runs", "95% interval", "paper", "difference")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for cell in cells:
        failed = f", {len(cell['failed'])} failed" if cell["failed"] else ""
        limits = DASH if cell.get("low") is None else f"{cell['low']:.1f} to {cell['high']:.1f}"
        inside = {True: " (inside)", False: " (outside)", None: ""}[cell.get("inside")]
        difference = f"{cell['difference']:+.2f}{inside}" if "difference" in cell else DASH
        names = (cell["row"], cell["metric"], cell["column"])
        numbers = (_ours(cell, 2), f"{cell['n']}{failed}", limits, _papers(cell, 2), difference)
        lines.append("| " + " | ".join([*names, *numbers]) + " |")
    reasons = {reason: None for cell in cells for reason in cell["failed"]}  # each once, in order
    lines += ["", "Failed:", *(f"- {reason}" for reason in reasons)] if reasons else []
    return f"**{table.title}** ({table.paper})\n\n" + "\n".join(lines) + "\n"


def overview(table: Table, cells: list[dict[str, Any]]) -> str:
    """The table at a glance: the columns side by side, the paper's numbers below ours.

    In brackets: the number of runs behind our mean, and how much it differs from the paper's.
    """
    heads = ("measured", "row", *table.columns)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    found = {(cell["metric"], cell["row"], cell["column"]): cell for cell in cells}
    for metric in table.metrics:
        for row in dict.fromkeys(cell["row"] for cell in cells):
            published = _published(table, row, metric)
            across = [
                found.get((metric, row, column)) or _cell([], [], number)
                for column, number in zip(table.columns, published, strict=True)
            ]
            lines.append("| " + " | ".join([metric, row, *map(_alone, across)]) + " |")
            if published != [None] * len(published):
                lines.append("| " + " | ".join(["", "in the paper", *map(_beside, across)]) + " |")
    return "\n".join(lines) + "\n"


def _alone(cell: dict[str, Any]) -> str:
    """A mean with its deviation and the number of runs, or how many were refused or failed."""
    if not cell["n"]:
        return f"{len(cell['failed'])} failed" if cell["failed"] else DASH
    failed = f", {len(cell['failed'])} failed" if cell["failed"] else ""
    return f"{_ours(cell, 1)} ({cell['n']}{failed})"


def _beside(cell: dict[str, Any]) -> str:
    """The paper's number, and by how much ours differs."""
    if "difference" not in cell:
        return _papers(cell, 1)
    difference = f"{cell['difference']:+.1f}".replace("-0.0", "+0.0")
    return f"{_papers(cell, 1)} ({difference})"


def _ours(cell: dict[str, Any], digits: int) -> str:
    return _with_spread(cell["mean"], cell["deviation"], digits) if cell["n"] else DASH


def _papers(cell: dict[str, Any], digits: int) -> str:
    return _with_spread(cell["paper"], cell["spread"], digits)


def _with_spread(number: float | None, spread: float | None, digits: int) -> str:
    if number is None:
        return DASH
    return f"{number:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


if __name__ == "__main__":
    main()
