"""Plan: which runs a sweep consists of, from a TOML file."""

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from crossbias.errors import CrossbiasError
from crossbias.parameters import parameters_of, unknown
from crossbias.registry import METHODS, create_method
from crossbias.sweep.job import TABLES, Job, make_job
from crossbias.sweep.space import Space
from crossbias.train.config import TrainConfig
from crossbias.trust import check_trusted

_KEYS: Final = {*TABLES, "seeds", "grid", "search", "slurm", "ray"}

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Plan:
    """What a plan says.

    Args:
        tables: For each table of a configuration, its alternatives.
        seeds: Seeds of the training.
        grid: Settings with several values, by name with the table, such as ``train.lr``. Every
            combination is one run.
        space: What a search draws; None without a search.
        backends: Settings of Slurm and of Ray, by the name of the backend.
    """

    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    seeds: Sequence[int]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    space: Space | None = None
    backends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, *, trust: bool = False) -> "Plan":
        """The plan in a file.

        Args:
            path: The file.
            trust: Whether code that the file names may be imported.

        Raises:
            CrossbiasError: The file cannot be read, or something in it cannot be.
        """
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise CrossbiasError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise CrossbiasError(f"{path} is not TOML: {error}") from error
        for name in content:
            if name not in _KEYS:
                raise unknown(f"{path} has an unknown key", name, sorted(_KEYS), "its keys may be")
        tables = {table: _alternatives(path, table, content.get(table, {})) for table in TABLES}
        grid = _flat(content.get("grid", {}), f"[grid] of {path}")
        plan = cls(
            tables=tables,
            seeds=_seeds(path, content),
            grid=grid,
            space=Space.read(content["search"], path) if "search" in content else None,
            backends={name: content.get(name, {}) for name in ("slurm", "ray")},
        )
        plan._check(path, trust)
        return plan

    @property
    def size(self) -> int:
        """The number of combinations; some may be the same run."""
        alternatives = math.prod(len(each) for each in self.tables.values())
        return alternatives * math.prod(len(each) for each in self.grid.values()) * len(self.seeds)

    def jobs(self) -> list[Job]:
        """All runs of the grid, seed by seed, so that early results fill the whole table."""
        found: dict[str, Job] = {}
        for seed in self.seeds:
            for tables, varied in self._combinations():
                job = self.job(tables, seed, varied)
                found.setdefault(job.name, job)
        return list(found.values())

    def arms(self) -> list[tuple[str, Tables]]:
        """The configurations that a search has the same budget for, without a seed."""
        found = {}
        for tables, varied in self._combinations():
            name = self.job(tables, self.seeds[0], varied).name
            found[name] = tables
        return list(found.items())

    def job(self, tables: Tables, seed: int, varied: Mapping[str, Any]) -> Job:
        """One run of a configuration."""
        seeded = {**tables, "train": {**tables["train"], "seed": seed}}
        named = dict(varied) | {"train.seed": seed}  # always: further seeds keep the names
        return make_job(seeded, named)

    def _combinations(self) -> Iterator[tuple[Tables, dict[str, Any]]]:
        """Tables, and which of their settings differ within the plan."""
        several = [table for table in TABLES if len(self.tables[table]) > 1]
        for chosen in itertools.product(*(self.tables[table] for table in TABLES)):
            own = dict(zip(TABLES, chosen, strict=True))
            for values in itertools.product(*self.grid.values()):
                settings = dict(zip(self.grid, values, strict=True))
                tables, varied = merged(own, settings)
                named = {
                    f"{table}.{key}": value
                    for table in several
                    for key, value in own[table].items()
                    if any(each.get(key) != value for each in self.tables[table])
                }
                yield tables, named | varied

    def _check(self, path: Path, trust: bool) -> None:
        """Refuse what no run could do, before the first one starts."""
        if not any("name" in each for each in self.tables["data"]) and "data.name" not in self.grid:
            raise CrossbiasError(f"{path} names no data; add [data] with name = ...")
        names = [*self.grid, *(self.space.names() if self.space else ())]
        for name in names:
            table, _, key = name.partition(".")
            if table not in TABLES or not key:
                raise unknown(f"{path} varies", name, [f"{each}.NAME" for each in TABLES], "write")
        methods = {str(each.get("name", "erm")) for each in self.tables["method"]}
        methods |= {str(value) for value in self.grid.get("method.name", ())}
        if not trust:
            for chosen in itertools.chain.from_iterable(
                ({table: each} for each in self.tables[table]) for table in TABLES
            ):
                check_trusted(chosen, path)
            for name, values in self.grid.items():
                table, _, key = name.partition(".")
                if key == "name" or table == "method":
                    for value in values:
                        check_trusted({table: {key: value}}, path)
        for name in names:
            key = name.removeprefix("method.")
            if key not in (name, "name") and not any(_has(method, key) for method in methods):
                raise CrossbiasError(
                    f"{path} varies {name}, but none of its methods has it: "
                    f"{', '.join(sorted(methods))}"
                )

    def check_runs(self, jobs: Sequence[Job]) -> None:
        """Make every method, data source and training configuration once, as a run would."""
        different: dict[str, dict[str, Job]] = {table: {} for table in TABLES}
        for job in jobs:
            for table in TABLES:
                different[table].setdefault(repr(sorted(job.tables[table].items())), job)
        for job in different["method"].values():
            create_method(**{"name": "erm", **job.tables["method"]})
        for job in different["train"].values():
            TrainConfig.from_dict(job.tables["train"])
        for job in different["data"].values():
            job.experiment().source.options()


def merged(
    tables: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]
) -> tuple[Tables, dict[str, Any]]:
    """Tables with further settings, and those settings that apply.

    A hyper-parameter that the method does not have is left out.
    """
    found: Tables = {table: dict(tables[table]) for table in TABLES}
    applied = {}
    for name, value in settings.items():  # names of methods first
        table, _, key = name.partition(".")
        method = str(settings.get("method.name", found["method"].get("name", "erm")))
        if table == "method" and key != "name" and not _has(method, key):
            continue
        found[table][key] = value
        applied[name] = value
    return found, applied


def _has(method: str, key: str) -> bool:
    """Whether a method has a hyper-parameter; nobody knows about code that is not imported."""
    if method not in METHODS:
        return True
    return key.partition(".")[0] in parameters_of(METHODS[method])


def _alternatives(path: Path, table: str, value: Any) -> list[dict[str, Any]]:
    """A table, or several of them, as a list."""
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(each, dict) for each in several):
        raise CrossbiasError(f"{table} of {path} must be a table [{table}], or several [[{table}]]")
    return [dict(each) for each in several]


def _seeds(path: Path, content: Mapping[str, Any]) -> list[int]:
    seeds: list[int] = content.get("seeds", [0])
    whole = isinstance(seeds, list) and all(
        isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds
    )
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise CrossbiasError(
            f"seeds of {path} must be a list of different whole numbers, such as [0, 1, 2], "
            f"got {seeds!r}"
        )
    alternatives = content.get("train", {})
    tables = alternatives if isinstance(alternatives, list) else [alternatives]
    if any(isinstance(table, dict) and "seed" in table for table in tables):
        raise CrossbiasError(f"{path} has a seed in [train]; write seeds = [...] above the tables")
    return seeds


def _flat(values: Any, what: str, prefix: str = "") -> dict[str, list[Any]]:
    """Lists by their dotted names; TOML makes tables of names with dots."""
    if not isinstance(values, dict):
        raise CrossbiasError(f"{what} must be a table, got {values!r}")
    found: dict[str, list[Any]] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            found |= _flat(value, what, f"{name}.")
        elif isinstance(value, list) and value:
            found[name] = value
        else:
            raise CrossbiasError(f"{what}: {name} must be a list of values, got {value!r}")
    return found
