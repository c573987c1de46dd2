"""Job: one run of a sweep, by the tables of its configuration."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from crossbias.experiment import Experiment
from crossbias.formatting import setting

TABLES: Final = ("method", "data", "network", "train")

_LONGEST: Final = 80  # characters of the readable part of a name
_ODD: Final = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True)
class Job:
    """One run.

    Args:
        name: The name of its folder: readable, then the hash of the tables.
        tables: The tables of its configuration, as in a config file.
        data: The data it is about, in words.
    """

    name: str
    tables: Mapping[str, Mapping[str, Any]]
    data: str = field(compare=False)

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return int(self.tables["train"].get("seed", 0))

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.tables["method"].get("name", "erm"))

    def experiment(self) -> Experiment:
        """The experiment; whoever read the plan has checked that its code is trusted."""
        method, data, network, train = (self.tables[table] for table in TABLES)
        return Experiment(method, data, network, train)

    def arguments(self) -> list[str]:
        """The command line that trains this run alone, but for its folder.

        >>> make_job({"method": {"name": "erm"}, "data": {"name": "glyphs"}, "network": {},
        ...           "train": {"epochs": 2, "seed": 1}}).arguments()
        ['crossbias', 'train', '--method', 'erm', '--data', 'glyphs', '--set', 'train.epochs=2', \
'--set', 'train.seed=1']
        """
        written = ["crossbias", "train"]
        for table in TABLES:
            for name, value in self.tables[table].items():
                if name == "name":
                    written += [f"--{table}", str(value)]
                else:
                    written += ["--set", f"{table}.{name}={_as_text(value)}"]
        return written


class Outcome(NamedTuple):
    """How a run ended.

    Args:
        name: The name of the run.
        state: ``stopped`` runs can be resumed.
        line: The last line of a failed run.
        memory: The most memory that its process had, in bytes; 0 if it is not known.
        device_memory: The same of its GPU.
    """

    name: str
    state: Literal["finished", "stopped", "failed"]
    line: str = ""
    memory: int = 0
    device_memory: int = 0


def make_job(
    tables: Mapping[str, Mapping[str, Any]], varied: Mapping[str, Any] | None = None
) -> Job:
    """A job with its name.

    Args:
        tables: The tables of the configuration.
        varied: The settings that differ within the plan, by their names with the table.

    >>> make_job({"method": {"name": "pgd"}, "data": {"name": "glyphs", "rho": 0.9}, "network": {},
    ...           "train": {"seed": 1}}, {"data.rho": 0.9, "train.seed": 1}).name
    'pgd-glyphs-rho0.9-seed1-41397080'
    """
    method, data = (str(tables[table].get("name", "erm")) for table in ("method", "data"))
    parts = [_short(method), _short(data)]
    parts += [
        _short(str(value))
        if key.endswith(".name")
        else f"{key.rpartition('.')[2]}{_as_text(value)}"
        for key, value in (varied or {}).items()
        if key not in ("method.name", "data.name")
    ]
    readable = _ODD.sub("_", "-".join(parts))[:_LONGEST]
    text = json.dumps(tables, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Job(f"{readable}-{digest}", tables, data=_in_words(tables["data"]))


def _in_words(data: Mapping[str, Any]) -> str:
    """The data by name and options."""
    options = ", ".join(f"{key} {setting(data[key])}" for key in data if key != "name")
    return f"{data.get('name')} ({options})" if options else str(data.get("name"))


def _short(name: str) -> str:
    """The last part of a path or of a dotted name."""
    return name.rpartition(":")[2].rstrip("/").rpartition("/")[2]


def _as_text(value: Any) -> str:
    """A value as ``--set`` takes it."""
    if isinstance(value, list | tuple):
        return ",".join(map(_as_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
