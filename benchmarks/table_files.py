"""Reading the files of tables: a value of another kind than they have is named."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.parameters import unknown

NUMBERS = ("overall", "aligned", "conflicting", "unbiased", "class_averaged")
"""The numbers of each split that results keep."""

_NAMES: dict[type, str] = {dict: "a table", str: "text"}


def read_toml(path: Path) -> dict[str, Any]:
    """What a file says."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CrossbiasError(f"{path} is not TOML: {error}") from error


def read_runs(path: Path) -> dict[str, dict[str, Any]]:
    """What came out of the runs in a file of results; nothing where there is no file."""
    if not path.exists():
        return {}
    remedy = "restore it, or remove it to train everything again"
    try:
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        for key, record in runs.items():
            if not record.keys() & {"found", "failed"}:
                raise CrossbiasError(f"{path} does not say what came out of {key!r}; {remedy}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CrossbiasError(f"{path} holds no results of runs; {remedy}") from error
    return dict(runs)


def check_kinds(content: Mapping[str, Any], path: Path) -> None:
    """Refuse the content of a table's file where a value is of another kind."""
    seeds = content["seeds"]
    if not (isinstance(seeds, list) and seeds and all(map(_is_seed, seeds))):
        raise CrossbiasError(f"seeds of {path} must be whole numbers from 0 on, got {seeds!r}")
    for name in ("title", "paper"):
        _check(content[name], str, f"{name} of {path}")
    for name in ("metrics", "columns", "rows"):
        for each, value in _check(content[name], dict, f"{name} of {path}").items():
            _check(value, dict, f"{name.removesuffix('s')} {each!r} of {path}")
    for name, metric in content["metrics"].items():
        _check_metric(metric, f"metric {name!r} of {path}")
    for name, row in content["rows"].items():
        _check_row(row, f"row {name!r} of {path}")


def _check_metric(metric: Mapping[str, Any], what: str) -> None:
    if metric.keys() != {"split", "number"}:
        raise CrossbiasError(f"{what} must have a split and a number, got {dict(metric)}")
    _check(metric["split"], str, f"split of {what}")
    if metric["number"] not in NUMBERS:
        raise unknown(f"{what} names a number that is not there:", metric["number"], NUMBERS)


def _check_row(row: Mapping[str, Any], what: str) -> None:
    for key in row.keys() & {"recipe", "method"}:
        _check(row[key], str, f"{key} of {what}")
    for key in row.keys() & {"set", "at", "paper"}:
        _check(row[key], dict, f"{key} of {what}")
    for column, settings in row.get("at", {}).items():
        _check(settings, dict, f"{column!r} in at of {what}")
    for metric, numbers in row.get("paper", {}).items():
        if not (isinstance(numbers, list) and all(map(_is_published, numbers))):
            raise CrossbiasError(
                f"the paper's numbers of {metric!r} in {what} must be a list of numbers, or of "
                f"numbers with their spreads, got {numbers!r}"
            )


def _check(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise CrossbiasError(f"{what} must be {_NAMES[kind]}, got {value!r}")
    return value


def _is_seed(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_published(value: Any) -> bool:
    """Whether a value is a number, or a number and its spread."""
    pair = value if isinstance(value, list) else [value, 0]
    return len(pair) == 2 and all(type(number) in (int, float) for number in pair)
