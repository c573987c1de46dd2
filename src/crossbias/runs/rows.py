"""A row of the comparison: one method with one configuration, over its seeds."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crossbias.errors import CrossbiasError
from crossbias.runs.columns import COLUMNS, Judged, judged
from crossbias.runs.comparability import recipe
from crossbias.runs.read import FinishedRun
from crossbias.verify import Estimate, over_seeds


class Number(NamedTuple):
    """One number of a row.

    Of one run, the limits are those over test samples; of several seeds, those over trainings.
    """

    value: float
    low: float
    high: float
    deviation: float  # over seeds; NaN for one run
    n: int  # test samples


class Row(NamedTuple):
    """All runs that differ in nothing but the seed."""

    label: str
    runs: tuple[FinishedRun, ...]
    judged: tuple[Judged, ...]
    cells: Mapping[str, Number | None]

    @property
    def supervision(self) -> str:
        """What the method knew about the bias."""
        return str(self.runs[0].config["supervision"])

    @property
    def selection(self) -> str:
        """The rule by which the epoch was chosen."""
        return str(self.runs[0].config["selection"])


def rows_of(
    runs: Sequence[FinishedRun], columns: Sequence[str], attribute: str | None
) -> list[Row]:
    """One row for the runs of each recipe, in the order they are named.

    Raises:
        CrossbiasError: Two runs agree in everything, the seed too: counting both would pretend
            to know more.
    """
    recipes: dict[str, list[FinishedRun]] = {}
    for run in runs:
        key = json.dumps([recipe(run), run.config["supervision"]])
        same = recipes.setdefault(key, [])
        for other in same:
            if _seed(other) == _seed(run):
                raise CrossbiasError(
                    f"{other.path} and {run.path} are the same training: everything agrees, seed "
                    f"{_seed(run)} too; name one of them"
                )
        same.append(run)
    groups = list(recipes.values())
    labels = _labels([group[0] for group in groups])
    return [
        _row(label, group, columns, attribute) for label, group in zip(labels, groups, strict=True)
    ]


def _row(
    label: str, runs: Sequence[FinishedRun], columns: Sequence[str], attribute: str | None
) -> Row:
    parts = tuple(judged(run, attribute) for run in runs)
    cells = {name: _cell([COLUMNS[name](part) for part in parts]) for name in columns}
    return Row(label, tuple(runs), parts, cells)


def _cell(estimates: Sequence[Estimate | None]) -> Number | None:
    present = [estimate for estimate in estimates if estimate is not None and estimate.n]
    if len(present) < len(estimates) or not present:
        return None
    if len(present) == 1:
        only = present[0]
        return Number(only.value, only.low, only.high, math.nan, only.n)
    spread = over_seeds([estimate.value for estimate in present])
    return Number(spread.mean, spread.low, spread.high, spread.deviation, present[0].n)


def _labels(firsts: Sequence[FinishedRun]) -> list[str]:
    """The method's name, and where several rows share it the settings in which they differ."""
    settings = [_settings(run) for run in firsts]
    names = []
    for run, own in zip(firsts, settings, strict=True):
        rivals = [s for r, s in zip(firsts, settings, strict=True) if r.title == run.title]
        keys = {key for rival in rivals for key in rival}
        differing = sorted(key for key in keys if any(s.get(key) != own.get(key) for s in rivals))
        words = ", ".join(f"{key} {own.get(key)}" for key in differing)
        names.append(f"{run.title} ({words})" if words else run.title)
    return names


def _settings(run: FinishedRun) -> dict[str, Any]:
    """Everything that makes a recipe, flat."""
    found: dict[str, Any] = {
        "selection": run.config["selection"],
        "supervision": run.config["supervision"],
    }
    for part in ("method", "network", "data", "train"):
        for name, value in (run.config.get(part) or {}).items():
            found[f"{part} {name}"] = value
    for split, digest in (run.config["data"].get("hashes") or {}).items():
        found[f"{split} data"] = str(digest)[:8]
    return {name: value for name, value in found.items() if name not in _NOT_A_SETTING}


_NOT_A_SETTING = ("data hashes", "train seed")


def _seed(run: FinishedRun) -> int:
    return int(run.config["train"]["seed"])
